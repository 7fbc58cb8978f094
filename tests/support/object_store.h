// The objects of a scripted API server and what the real one does with them: versions, generations,
// conditions of writes, patches, pages, and the changes that watches are fed with. No sockets, no
// threads; answers are what an HTTP body and status would be.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/kube/api.h"

namespace sandbroker::testing {

// A Status object of a failure.
boost::json::object StatusBody(int code, const std::string& reason, const std::string& message);

// Members of objects, for tests: "" or null when they are not there. `path` as in
// "metadata.labels", with no way to write a dot inside a key.
const boost::json::value* At(const boost::json::object& object, const std::string& path);
std::string TextAt(const boost::json::object& object, const std::string& path);
// Makes what is missing on the way.
void SetAt(boost::json::object& object, const std::string& path, boost::json::value value);

// "k=v", "k==v", "k!=v", "k", "!k", "k in (a,b)", "k notin (a,b)", joined by commas.
bool MatchesSelector(const boost::json::object& object, const std::string& selector);

class ObjectStore {
 public:
  struct Answer {
    int status = 200;
    boost::json::object body = {};
    bool ok() const { return status < 300; }
  };
  struct Change {
    kube::Resource resource;
    std::string space;
    std::string name;
    uint64_t version = 0;
    std::optional<boost::json::object> before;
    std::optional<boost::json::object> after;  // empty: deleted
  };

  // Hears of each change once it is made.
  std::function<void(const Change&)> on_change;

  Answer Create(const kube::Resource& resource, const std::string& space,
                boost::json::object object);
  Answer Get(const kube::Resource& resource, const std::string& space,
             const std::string& name) const;
  Answer Replace(const kube::Resource& resource, const std::string& space, const std::string& name,
                 boost::json::object object);
  Answer PatchJson(const kube::Resource& resource, const std::string& space,
                   const std::string& name, const boost::json::value& operations);
  Answer PatchMerge(const kube::Resource& resource, const std::string& space,
                    const std::string& name, const boost::json::value& patch);
  // `options` is the body of a DELETE. Foreground: marked as being deleted; Remove ends it.
  Answer Delete(const kube::Resource& resource, const std::string& space, const std::string& name,
                const boost::json::object& options);
  // `limit` 0: all. `more` is a page's continue token.
  Answer List(const kube::Resource& resource, const std::string& space, const std::string& selector,
              size_t limit, const std::string& more) const;

  // As somebody else changes it, without conditions; false: it is not there. A change of nothing
  // is none.
  bool Update(const kube::Resource& resource, const std::string& space, const std::string& name,
              const std::function<void(boost::json::object&)>& change);
  bool Remove(const kube::Resource& resource, const std::string& space, const std::string& name);

  // What a watch of these from `version` on is sent, as event objects; an ERROR event alone when
  // that version is gone. `*version` moves on.
  std::vector<boost::json::object> EventsAfter(const kube::Resource& resource,
                                               const std::string& space,
                                               const std::string& selector,
                                               uint64_t* version) const;
  // Versions before now are gone: a watch from one of them gets an ERROR of 410.
  void Compact() { compacted_ = version_; }
  uint64_t version() const { return version_; }

 private:
  using Key = std::string;
  static Key KeyOf(const kube::Resource& resource, const std::string& space,
                   const std::string& name);
  std::optional<Answer> Invalid(const kube::Resource& resource,
                                const boost::json::object& object) const;
  Answer Store(const kube::Resource& resource, const std::string& space, const std::string& name,
               boost::json::object object);

  std::map<Key, boost::json::object> objects_;  // by group/plural/space/name
  std::vector<Change> changes_;
  uint64_t version_ = 100;
  uint64_t compacted_ = 0;
  uint64_t uids_ = 0;
};

}  // namespace sandbroker::testing
