// Package shell has the tools with which an agent runs commands: Bash and Git.
//
// A command runs exactly as it was judged. The verdict carries a plan (permission.Plan): for Bash
// the printed form of the checked syntax tree, for Git the words of the command. The tools run that
// plan, in a sandbox that the operating system enforces (security/sandbox), with an environment of
// a few named variables. If the sandbox cannot enforce its policy, a person is asked and sees what
// is missing. Without a person, or without any sandbox, nothing runs, and the model is told how to
// correct that.
//
// Each call is a process tree of its own, which ends with the call. Only files persist from one
// call to the next. Of long output the head and the tail are kept, with the number of bytes cut
// out.
package shell
