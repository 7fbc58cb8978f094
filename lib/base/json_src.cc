// Boost.JSON is compiled here, once: the distribution's headers carry its source.
#include <boost/json/src.hpp>
