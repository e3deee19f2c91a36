"""Building what is handed out (wheel, tarball, .deb) and trying it: see package.py."""
