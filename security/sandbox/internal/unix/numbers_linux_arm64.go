package unix

// SYS_SECCOMP differs between systems.
const SYS_SECCOMP = 277
