package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"symbio/security/permission"
)

// Definition is what an agent is: the front matter and the text of its Markdown file
// (spec: skills-orchestration.md, agents).
type Definition struct {
	// Name identifies the definition: letters, digits, hyphens; its file is NAME.md.
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	// Model overrides the node's; "" = the node's.
	Model string `yaml:"model"`
	// Accepts are the perceptions it takes tasks by. Default: task.
	Accepts []string `yaml:"accepts"`
	// Tools are the tools it has, by name or by preset (tool.Presets, such as preset:files); absent = all there are. What it may do with them is a matter of
	// permission.
	Tools []string `yaml:"tools"`
	// Skills are activated from the start.
	Skills []string `yaml:"skills"`
	// Permissions narrow what the node's configuration allows; they never widen it.
	Permissions permission.Config `yaml:"permissions"`
	// MaxTurns is how often the model may be asked for one task. Default 32.
	MaxTurns int `yaml:"max_turns"`
	// Instructions are the text below the front matter, the start of the system prompt.
	Instructions string `yaml:"-"`
}

// defaultMaxTurns is what a long task of real agents needs; a loop that turns more often is stuck.
const defaultMaxTurns = 32

// maxDefinition bounds a definition file, in bytes; the text goes into every prompt.
const maxDefinition = 256 << 10

var definitionName = regexp.MustCompile(`^[A-Za-z0-9]+(-[A-Za-z0-9]+)*$`)

// General is the agent of a node that has no definitions.
func General() Definition {
	return Definition{
		Name:        "general",
		Description: "Does a task with the tools it has, and spawns helpers for parts that are independent.",
		Accepts:     []string{"task"},
		MaxTurns:    defaultMaxTurns,
		Instructions: "You do the task you are given, with the tools you have, and answer with the result.\n" +
			"Spawn helpers with replicate_agent when parts of the task are independent, each with its part as the task, and read the results with wait_agents.\n" +
			"When a tool refuses, do not try to get round it: say what you could not do.",
	}
}

// ParseDefinition reads a definition. Unknown keys and rules that cannot be read are errors which
// name the line.
func ParseDefinition(text []byte) (Definition, error) {
	if len(text) > maxDefinition {
		return Definition{}, fmt.Errorf("larger than %d KiB", maxDefinition>>10)
	}
	front, body, err := splitFrontMatter(text)
	if err != nil {
		return Definition{}, err
	}
	var d Definition
	dec := yaml.NewDecoder(bytes.NewReader(front))
	dec.KnownFields(true)
	if err := dec.Decode(&d); err != nil && !errors.Is(err, io.EOF) {
		return Definition{}, fmt.Errorf("front matter: %w", err)
	}
	d.Instructions = strings.TrimSpace(string(body))
	switch {
	case len(d.Name) > 64 || !definitionName.MatchString(d.Name):
		return Definition{}, fmt.Errorf("name %q: want up to 64 letters, digits and single hyphens", d.Name)
	case d.Description == "":
		return Definition{}, errors.New("description is missing")
	case d.MaxTurns < 0:
		return Definition{}, fmt.Errorf("max_turns %d is negative", d.MaxTurns)
	}
	if d.MaxTurns == 0 {
		d.MaxTurns = defaultMaxTurns
	}
	if len(d.Accepts) == 0 {
		d.Accepts = []string{"task"}
	}
	if _, err := d.Permissions.Policy(); err != nil {
		return Definition{}, fmt.Errorf("permissions: %w", err)
	}
	return d, nil
}

// LoadDefinitions reads every NAME.md of a directory, in the order of their names. Each file that
// cannot be used is one of the errors, joined; the others are still returned.
func LoadDefinitions(dir string) ([]Definition, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		return nil, fmt.Errorf("agents in %s: %w", dir, err)
	}
	var all []Definition
	var problems []error
	for _, file := range files {
		d, err := loadDefinition(file)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", file, err))
			continue
		}
		all = append(all, d)
	}
	return all, errors.Join(problems...)
}

func loadDefinition(file string) (Definition, error) {
	info, err := os.Stat(file)
	if err != nil {
		return Definition{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxDefinition {
		return Definition{}, fmt.Errorf("not a file of up to %d KiB", maxDefinition>>10)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return Definition{}, err
	}
	d, err := ParseDefinition(text)
	if err == nil && d.Name+".md" != filepath.Base(file) {
		err = fmt.Errorf("name %q differs from the file's name", d.Name)
	}
	return d, err
}

// splitFrontMatter parts a text into what stands between its first two --- lines and the rest.
func splitFrontMatter(text []byte) (front, body []byte, err error) {
	text = bytes.TrimPrefix(text, []byte("\uFEFF"))
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	rest, ok := bytes.CutPrefix(text, []byte("---\n"))
	if !ok {
		return nil, nil, errors.New("line 1: want ---, the start of the front matter")
	}
	if body, ok = bytes.CutPrefix(rest, []byte("---\n")); ok {
		return nil, body, nil
	}
	front, body, ok = bytes.Cut(append(rest, '\n'), []byte("\n---\n"))
	if !ok {
		return nil, nil, errors.New("no second ---, the end of the front matter")
	}
	return front, body, nil
}
