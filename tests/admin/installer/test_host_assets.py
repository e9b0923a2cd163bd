"""What lifebus really installs into the six harnesses goes in, is found, and comes out again to the byte."""

from pathlib import Path

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.assets import Asset, InstallRequest, OwnedFile, SettingsFile
from lifebus_adapters.shared.telemetry import Surroundings
from lifebus_contract import IntegrationMode
from support.installer.boxes import Box

EXISTING = {
    "json": '{\n  "model": "x",\n  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "theirs"}]}]}\n}',
    "jsonc": '{\r\n\t// mine\r\n\t"model": {"name": "x"}, // why\r\n}\r\n',
    "json5": "// mine\n{\n  plugins: {load: {paths: ['/home/dev/theirs',]}, entries: {}}, // why\n}\n",
    "yaml": "# mine\nmodel:\n  default: x # why\nhooks:\n  on_session_start:\n  - command: theirs\n\n# end",
}
CASES = [
    pytest.param(host, mode, id=f"{host}, {mode}")
    for host, harness in ADAPTERS.items()
    for mode in harness.assets.modes
]


def assets_of(box: Box, host: str, mode: IntegrationMode) -> tuple[Asset, ...]:
    request = InstallRequest(
        mode=mode,
        scope="user",
        surroundings=Surroundings(home=str(box.root / "home"), environ={}),
        launcher=str(box.launcher_path),
        python="/usr/bin/python3",
    )
    return (box.own, *ADAPTERS[host].assets.make(request))


@pytest.mark.parametrize(("host", "mode"), CASES)
@pytest.mark.parametrize("there", [False, True])
def test_it_goes_in_and_comes_out(tmp_path: Path, host: str, mode: IntegrationMode, there: bool) -> None:
    box = Box(tmp_path)
    assets = assets_of(box, host, mode)
    for asset in assets:
        if isinstance(asset, SettingsFile) and there:
            Path(asset.path).parent.mkdir(parents=True, exist_ok=True)
            Path(asset.path).write_bytes(EXISTING[asset.dialect].encode())
    before = box.files()
    box.install(assets, adapter_id=host)
    assert box.status(assets).state == "present"
    assert box.plan(assets, adapter_id=host).nothing
    for asset in assets:
        assert isinstance(asset, OwnedFile) or str(box.launcher_path.parent) in Path(asset.path).read_text()
    box.remove(assets, adapter_id=host)
    assert box.files() == before
    box.install(assets, adapter_id=host)
    for asset in assets:
        if isinstance(asset, SettingsFile):
            box.forget_records()
            box.remove([asset], adapter_id=host)
            found = Path(asset.path)
            assert (found.read_bytes() if found.exists() else None) == before.get(str(found.relative_to(box.root)))
