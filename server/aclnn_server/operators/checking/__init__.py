"""The checks of phase one."""
