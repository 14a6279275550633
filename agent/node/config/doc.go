// Package config reads symbio.yaml, the configuration of a node.
//
// Every value is traceable: Origins says whether it is a default, a line of a
// file or a flag. An unknown key, or one with an earlier name, is an error that
// names the line. Reference describes every key; `symbio config reference`
// prints it.
//
// To add a key, add a field with a yaml tag, its default in Default, its check
// in Check, and its description in reference.yaml. A test fails as long as one
// of the last two is missing.
package config
