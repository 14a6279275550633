// Package command holds what all commands of symbio share:
//
// Env, which is the streams, the environment variables and the global flags of one run; functions
// that print for people and for scripts (output.go); the connection to a running node (dial.go);
// and errors that carry an exit status (errors.go).
//
// A command is a function of an Env that returns a *cobra.Command. It never touches os.Stdout,
// os.Getenv or os.Exit itself, so that a test can run it with buffers.
package command
