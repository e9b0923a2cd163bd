"""What only commands run: the installer, ledger files, snapshots on disk, inspection."""
