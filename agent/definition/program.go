package definition

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Program is another maker's agent that does the work of an agent in the place of a model: the key acp. It is driven by the
// Agent Client Protocol on its standard input and output, and runs in the node's sandbox. Only definitions of the node's own
// files have one; no other node and no model can name a command.
type Program struct {
	// Command is the program and its arguments. A name without a slash is looked for in the node's PATH.
	Command []string
	// Env are variables for it: NAME=VALUE, or NAME for the node's own value.
	Env []string
	// Model is the model that the program is to use, by its own name; "" = as it is set up.
	Model string
	// Login are files in which the user's login for it is kept, such as ~/.claude/.credentials.json. It gets copies.
	Login []string
	// Hosts may be reached by it: names, *.names, and host:port; without a port 443. nil = none.
	Hosts []string
}

// IsZero reports whether the definition has no program.
func (p Program) IsZero() bool { return len(p.Command) == 0 }

// programTurns is the default of max_turns for programs: each call of a tool of theirs is one.
const programTurns = 1000

// programField returns a function that reads a Program. A list alone is its command.
func programField(r *parser, p *Program) field {
	words := func(name, example string, to *[]string) field {
		return r.words("acp."+name, example, func(all []item) { *to = texts(all) })
	}
	command := words("command", "[claude-code-acp]", &p.Command)
	keys := map[string]field{
		"command": command,
		"env":     words("env", "[ANTHROPIC_API_KEY]", &p.Env),
		"model":   r.text("acp.model", &p.Model),
		"login":   words("login", "[~/.claude/.credentials.json]", &p.Login),
		"hosts":   words("hosts", "[api.anthropic.com]", &p.Hosts),
	}
	read := func(f pair) {
		if f.value.Kind != yaml.MappingNode {
			command.read(f)
		} else {
			r.fields("acp", f.value, keys)
		}
		if len(p.Command) == 0 {
			r.addProblem(f.key.Line, "acp: it has no command, such as command: [claude-code-acp]")
		}
		if slices.ContainsFunc(p.Env, func(v string) bool { return strings.HasPrefix(v, "=") || v == "" }) {
			r.addProblem(f.value.Line, "acp.env: a variable is NAME=VALUE, or NAME")
		}
	}
	return field{read, anyOf(words("command", "[claude-code-acp]", &p.Command).schema, mappingSchema(keys))}
}
