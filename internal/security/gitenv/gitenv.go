// Package gitenv keeps git from executing what a repository names. It has the variables that take
// precedence over every configuration file. Filters and text converters have names that cannot be
// listed: a caller must not check files out of a repository that it does not know, or look at what
// was written afterwards. It runs nothing.
package gitenv

// Hardened returns variables for the environment of a git process, as NAME=VALUE: no pager, editor,
// hook, file system monitor or program that asks for a password, no remote helper that is a
// command, and no bare repository that was not named. The caller may change the slice.
func Hardened() []string {
	return []string{
		"GIT_PAGER=cat", "GIT_EDITOR=:", "GIT_SEQUENCE_EDITOR=:", "GIT_SSH_COMMAND=ssh", "GIT_ASKPASS=", "GIT_CONFIG_COUNT=4",
		"GIT_CONFIG_KEY_0=core.fsmonitor", "GIT_CONFIG_VALUE_0=false", "GIT_CONFIG_KEY_1=core.hooksPath", "GIT_CONFIG_VALUE_1=/dev/null",
		"GIT_CONFIG_KEY_2=safe.bareRepository", "GIT_CONFIG_VALUE_2=explicit", "GIT_CONFIG_KEY_3=protocol.ext.allow", "GIT_CONFIG_VALUE_3=never",
	}
}
