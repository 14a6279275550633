// Package skills finds, reads and activates skills: directories with a SKILL.md that tell an agent
// how to do one kind of work, and that may ask for tools to be allowed while they are in use.
//
// A model sees a skill in three steps. The catalog has the front matter only and goes into the
// system prompt; the instructions are read when an agent activates the skill; the files beside them
// are read on request. The grants of a skill belong to the agent that activated it, and end with
// the deactivation or with the agent.
//
// # Guarantees
//
// A scan never fails because of a skill: every SKILL.md that it leaves out is in Catalog.Errors
// with typed diagnostics. A registry reads a file again only if it has changed, and keeps the last
// good version of a skill that an edit broke.
//
// No link leads out of a skill's own directory. A FIFO or device in the place of a file does not
// block the reader. No file is read beyond its limit, and the time to read hostile front matter is
// linear in its size.
//
// A Registry is one actor, which alone changes its state: the activations of all agents of a node
// happen one after another. Granted, Reading, Dirs and Now read the state that it published and
// never wait for it. An error in anything about grants leaves fewer of them, never more. The texts
// for models are escaped, bounded and in a fixed order.
//
// # Limits
//
// The package does not run scripts, does not watch files (Rescan reads them again), and fetches
// nothing from a network (package share carries skills). It applies no grant of a project's skill,
// and no skill of another node, unless Config.Trust says that a person has trusted it (package
// trust); such grants are reported as withheld.
package skills
