// Package shell is the tools by which an agent runs commands: Bash and Git.
//
// The one idea: what runs is what was judged. The verdict carries a plan (permission.Plan): for Bash the checked syntax
// tree, printed; for Git the words of the command. The tools run that and nothing else, in a sandbox that the operating
// system enforces (security/sandbox), in an environment of a few named variables. Where the sandbox cannot hold what
// its policy says, a person is asked, and sees what is lacking; with nobody to ask, and where there is no sandbox,
// nothing runs, and the model is told what would mend it.
//
// Each call is a process tree of its own, which ends with it; nothing carries over from one call to the next but
// files. Output is kept at its head and tail, with the count of what was cut.
package shell
