// Package builtin has the built-in tools of an agent. New makes all of them: the file tools of this
// package (Read, Write, Edit, MultiEdit, Glob and Grep), Bash and Git (package shell), and WebFetch
// and WebSearch (package web).
//
// A Workspace is a directory that is held open (os.Root), and every file is opened through it. A
// path that leaves it, by .. or by a link, cannot be opened, even if the tree is changed at the
// same moment.
//
// Beside the code of each tool stands a Markdown file with the text that models read about it.
// Walks skip directories named .git and files that git would ignore (package gitignore), and report
// how many they skipped. They never follow links to directories and count regular files only. With
// ignored: true their sums equal the sums of find DIR -type f -not -path '*/.git/*', of wc -l and of
// grep -c. Sums cover everything, however little is shown. Output is sorted by name.
//
// An edit replaces the text that it names and keeps every other byte, line ends and encoding
// included. It requires that the agent has read the file and that the file has not changed since
// (tool.Notes). A Write of a file that was read requires the same.
//
// The tools may run in parallel. They stop when their context ends and obey tool.Except. They do
// not decide whether a call is allowed: the Set that runs them does.
package builtin
