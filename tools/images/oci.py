"""The OCI image layout: a file tree becomes an archive with one layer that `ctr images import`,
`docker load` and `skopeo` take. The same tree gives the same bytes."""
import hashlib
import io
import json
import os
import tarfile

EPOCH = "1970-01-01T00:00:00Z"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def entry(path, kind, mode, uid=0):
    """A tar entry that depends on nothing but its arguments."""
    info = tarfile.TarInfo(path)
    info.type = kind
    info.mode = mode
    info.uid = info.gid = uid
    return info


def layer_of(tree):
    """`tree`: path -> entry, or (entry, file on the host or bytes). Parents come before children,
    since a folder's path is a prefix of theirs."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for _, item in sorted(tree.items()):
            info, content = item if isinstance(item, tuple) else (item, None)
            if content is None:
                tar.addfile(info)
                continue
            if not isinstance(content, bytes):
                with open(content, "rb") as file:
                    content = file.read()
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def write_archive(path, name, tree, config):
    """Writes the image `name` (REPOSITORY:TAG) to `path`, whole or not at all."""
    layer = layer_of(tree)
    blobs = {}

    def store(data, media_type):
        if not isinstance(data, bytes):
            data = json.dumps(data, sort_keys=True).encode()
        blobs[digest(data)] = data
        return {"mediaType": "application/vnd.oci.image." + media_type, "digest": digest(data),
                "size": len(data)}

    platform = {"architecture": "amd64", "os": "linux"}
    stored_layer = store(layer, "layer.v1.tar")
    stored_config = store({**platform, "created": EPOCH, "config": config,
                           "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
                           "history": [{"created": EPOCH}]}, "config.v1+json")
    manifest = store({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                      "config": stored_config, "layers": [stored_layer]}, "manifest.v1+json")
    manifest["platform"] = platform
    manifest["annotations"] = {"io.containerd.image.name": name,
                               "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
             "index.json": json.dumps({"schemaVersion": 2, "manifests": [manifest]}).encode()}
    files.update({"blobs/" + key.replace(":", "/"): data for key, data in blobs.items()})
    archive = layer_of({key: (entry(key, tarfile.REGTYPE, 0o644), data)
                        for key, data in files.items()})
    with open(f"{path}.new", "wb") as file:
        file.write(archive)
    os.rename(f"{path}.new", path)
    return len(layer)
