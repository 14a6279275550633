// Package gitignore says which files git would ignore, by the rules of .gitignore files.
//
// The one idea: the files' patterns are read in the order in which git weighs them, and the last that matches says.
// Whoever walks a tree asks for each entry of each directory that is not ignored itself; so nothing below an ignored
// directory can be taken back in, as with git.
//
// It works on bytes, as git does: ? is one byte. No pattern makes it slow or makes it panic: matching takes at most
// the product of the lengths of pattern and path. It reads no files, knows no index (git lists a tracked file
// although a pattern matches it; this does not know), and takes the case of letters to count.
package gitignore
