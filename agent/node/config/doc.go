// Package config reads symbio.yaml: what a node is, offers and allows.
//
// The one idea: a value is always traceable. Each one knows whether it is a default, a line of a
// file or a flag, and a key that nobody knows is an error which names the line.
package config
