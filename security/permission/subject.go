package permission

import (
	"maps"
	"slices"
)

// matter is the value that a rule's spec is compared with, and how. The zero value is for tools about which
// nothing is known.
type matter int

const (
	matterOpaque  matter = iota // nothing is known of the tool: its strings, for deny only
	matterPath                  // a file or directory
	matterName                  // the literal name of a skill, an agent, a capability, a perception
	matterCommand               // a shell command
	matterGit                   // git's arguments
	matterURL                   // where a request goes
)

// subject says which argument of a tool the rules for that tool look at.
type subject struct {
	matter matter
	// args are the arguments that may hold the value. An allow needs all that are present to match,
	// a deny any: one that the tool does not know cannot be a decoy.
	args []string
	// absent is the value when none is present; "" = one has to be.
	absent string
	// tree means that the call reaches everything below the path.
	tree bool
	// program means that the call runs a program whose effect no rule can tell.
	program bool
}

// subjects is the one place that knows the tools. A tool that is not here has an opaque subject.
var subjects = map[string]subject{
	"Read":      {matter: matterPath, args: []string{"file_path"}},
	"Write":     {matter: matterPath, args: []string{"file_path"}},
	"Edit":      {matter: matterPath, args: []string{"file_path"}},
	"MultiEdit": {matter: matterPath, args: []string{"file_path"}},
	"Glob":      {matter: matterPath, args: []string{"path"}, absent: ".", tree: true},
	"Grep":      {matter: matterPath, args: []string{"path"}, absent: ".", tree: true},
	"Bash":      {matter: matterCommand, args: []string{"command"}},
	"Git":       {matter: matterGit},
	"WebFetch":  {matter: matterURL, args: []string{"url"}},

	"activate_skill":    {matter: matterName, args: []string{"skill_name", "skillName", "name"}},
	"skill_load":        {matter: matterName, args: []string{"skill_name", "skillName", "name"}},
	"replicate_agent":   {matter: matterName, args: []string{"agent", "name"}},
	"invoke_capability": {matter: matterName, args: []string{"capability"}},
	"send_signal":       {matter: matterName, args: []string{"perception"}},
	"run_skill_script":  {matter: matterName, args: []string{"script"}, program: true},
	"skill_fetch":       {matter: matterName, args: []string{"name"}},
}

// aliases are the names under which people know a tool from elsewhere.
var aliases = map[string]string{
	"activate_skill":  "Skill",
	"skill_load":      "Skill",
	"replicate_agent": "Agent",
}

// aliased has the tool for each alias. Two tools share the alias Skill; their subjects are the
// same.
var aliased = func() map[string]string {
	tools := map[string]string{}
	for tool, alias := range aliases {
		tools[alias] = tool
	}
	return tools
}()

// families has for each tool the one whose denials cover it, too: a denied Read
// also denies Grep. Allow rules have no families.
var families = map[string]string{
	"Write": "Edit", "MultiEdit": "Edit",
	"Glob": "Read", "Grep": "Read",
	"Git": "Bash", "run_skill_script": "Bash",
	// Two ways to the same skill.
	"skill_load": "activate_skill", "activate_skill": "skill_load",
}

// subjectOf returns the subject of a tool or of one of the aliases; the zero subject, which is
// opaque, for a tool that is not known, such as one of an MCP server.
func subjectOf(tool string) subject {
	if s, ok := subjects[tool]; ok {
		return s
	}
	return subjects[aliased[tool]]
}

// knownTools returns the names that a rule may mean to write, sorted, for the error about a wrong
// case.
func knownTools() []string {
	names := slices.Concat(slices.Collect(maps.Keys(subjects)), slices.Collect(maps.Values(aliases)), []string{"WebSearch"})
	slices.Sort(names) // for errors that are the same each time
	return slices.Compact(names)
}
