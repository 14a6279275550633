// Package command has what the commands of symbio share: Env, which is the streams, the environment and the global flags
// of one run; ways to print for people and for scripts; the connection to a node; errors with their exit statuses.
package command
