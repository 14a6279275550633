// Package workcontext makes the parts of a system prompt that say where an agent works: the files
// that a project has for agents (AGENTS.md), and the environment.
//
// The text of a file is advice by its author. It changes no permission, and the parts say so to the
// model. Reading runs no program and follows no link out of the repository. All functions are safe
// for concurrent use.
package workcontext
