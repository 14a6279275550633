// Package builtin holds the built-in tools of an agent. New makes all of them: those for files, which are of this package
// (Read, Write, Edit, MultiEdit, Glob and Grep), Bash and Git (package shell), WebFetch and WebSearch (package web).
//
// The one idea: a Workspace is one directory held open (os.Root), and every path of a file goes through it. What
// leaves it, by .. or by a link, cannot be reached, also when somebody changes the tree meanwhile.
//
// Beside the code of each tool stands a Markdown file, the text that a model reads about it. Walks
// skip directories named .git and what git would ignore (package gitignore), and say how much that was; they never
// follow links to directories, and count regular files only. With ignored: true their sums are those of
// find DIR -type f -not -path '*/.git/*', of wc -l and of grep -c; sums are over everything, however little is shown.
// Their output is in the order of names.
//
// An edit replaces what it names and keeps every other byte, line ends and encodings too. It needs that its agent has
// read the file, and that the file is still as it was then (tool.Notes); so does a Write of a file that was read.
//
// The tools may run beside each other. They heed their context, and obey tool.Except. They do not
// judge whether a call is allowed: that is for the Set that runs them.
package builtin
