// Package gitignore reports which files git ignores, by the rules of .gitignore files.
//
// Patterns are kept in the order in which git weighs them; the last one that matches decides. The
// caller asks about each entry of each directory that is not ignored itself. So nothing below an
// ignored directory can be included again, as in git.
//
// It works on bytes, as git does: ? is one byte. Matching takes at most time proportional to the
// product of the lengths of pattern and path, and never panics. The package reads no files and no
// index (git tracks a file although a pattern matches it; this package does not know that), and
// case matters.
package gitignore
