// Asio's TLS part, compiled once for everybody.
#include <boost/asio/ssl/impl/src.hpp>
