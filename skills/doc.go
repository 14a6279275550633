// Package skills finds, reads and hands out skills: directories with a SKILL.md that tell an agent
// how to do one kind of work, and that may ask for tools to be allowed while they are in use.
//
// The one idea: a skill is shown in three steps. The catalog holds front matter only and goes into
// the system prompt; the instructions are read when an agent activates the skill; files beside them
// are read when they are asked for. What a skill grants belongs to the agent that activated it, and
// ends with the deactivation or with the agent.
//
// Guarantees: a scan never fails as a whole, every SKILL.md that it leaves out is in Catalog.Errors
// with typed diagnostics. A registry reads a file again only when it has changed, and keeps the last good version of a skill
// that an edit broke. No link leads out of a skill's own directory; a FIFO or device in the place of a file does not hang the
// reader; no file is read beyond its limit; the time to read hostile front matter is linear in its size. A Registry is one
// actor, which alone changes its state: activations of all agents of a node happen one after another. Granted, Reading, Dirs
// and Now read what it published and never wait for it. An error in anything about grants leaves fewer of them, never more.
// What is shown to models is escaped, bounded and in a fixed order.
//
// It does not run scripts, does not watch files (Rescan reads them again), fetches nothing from a
// network (package share carries skills), and applies no grant of a project's skill, and no skill of another
// node, that Config.Trust does not say a person has trusted (package trust): these are reported as withheld.
package skills
