// Package cli is the command line of symbio: one file cmd_NAME.go for each command. Commands that group
// others, such as `symbio skills` and `symbio agents`, are packages of their own (skillcmd, agentcmd),
// and so is the conversation of run and chat (chat). Commands that act on a node talk to it over its control socket; none of
// them knows how a node works inside.
//
// To add a command, write a function that returns a *cobra.Command, add it to root, and write its
// help into help/NAME.txt; a test fails without the help.
//
// Data goes to standard output, everything else to standard error. Exit status: 0 done, 1 failed, 2
// wrong usage, 3 denied, 4 not found, 5 unavailable or timed out.
package cli
