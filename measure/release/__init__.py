"""Builds the packages (wheel, tarball, .deb) and tries them: see package.py."""
