"""Write the pages of the events: `PYTHONPATH=tests python tests/contract/write_events.py`."""

from support.events.pages import files
from support.events.recorded import play_everything

if __name__ == "__main__":
    for path, text in files(play_everything()).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
