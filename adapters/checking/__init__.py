"""`check`: whether files that somebody was handed hold, with nothing but those files and keys."""
