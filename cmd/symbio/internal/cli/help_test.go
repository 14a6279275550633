package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
)

// AllHelp returns what `symbio NAME --help` prints for each command, hidden ones and those of cobra included.
func AllHelp(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	eachHelp(t, func(c *cobra.Command, text string) { texts[c.CommandPath()] = text })
	return texts
}

// eachHelp calls f with each command and what its --help prints.
func eachHelp(t *testing.T, f func(c *cobra.Command, text string)) {
	t.Helper()
	root := root(new(command.Env))
	root.InitDefaultHelpCmd()
	if err := helpOnDemand(root, nil); err != nil {
		t.Fatal(err)
	}
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		var out strings.Builder
		c.InitDefaultHelpFlag()
		c.SetOut(&out)
		if err := c.Help(); err != nil {
			t.Errorf("%s --help: %v", c.CommandPath(), err)
		}
		f(c, out.String())
		for _, below := range c.Commands() {
			look(below)
		}
	}
	look(root)
}

func TestHelpFits80Columns(t *testing.T) {
	texts := AllHelp(t)
	if len(texts) < 50 {
		t.Fatalf("%d commands, want 50 and more", len(texts))
	}
	for path, text := range texts {
		if !strings.Contains(text, "Usage:\n") {
			t.Errorf("%s --help says no usage:\n%s", path, text)
		}
		if strings.Contains(text, "[=") {
			t.Errorf("%s --help shows the value of a flag that is given without one:\n%s", path, text)
		}
		if strings.HasPrefix(path, "symbio completion ") {
			continue // cobra's own texts
		}
		for line := range strings.Lines(text) {
			if n := terminal.Width(strings.TrimSuffix(line, "\n")); n > helpColumns {
				t.Errorf("%s --help has a line of %d columns: %s", path, n, line)
			}
		}
	}
}

// The first line is read in the list of commands: an imperative, as "Run a node in the foreground".
func TestHelpBeginsWithAnImperative(t *testing.T) {
	root := root(new(command.Env))
	if err := addHelp(root); err != nil {
		t.Fatal(err)
	}
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		first, _, _ := strings.Cut(c.Short, " ")
		if strings.HasSuffix(first, "s") || strings.HasSuffix(first, "ing") || strings.Contains("The A An What Who", first) {
			t.Errorf("%s: %q does not begin with an imperative", c.CommandPath(), c.Short)
		}
		for _, below := range c.Commands() {
			look(below)
		}
	}
	look(root)
}

func TestCommandsHaveHelpWithExample(t *testing.T) {
	root := root(new(command.Env))
	if err := addHelp(root); err != nil {
		t.Fatal(err)
	}
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		if c.Name() == "completion" || c.Hidden {
			return
		}
		if c.Example == "" || c.Short == "" {
			t.Errorf("%s has no example, or no line that says what it does", c.CommandPath())
		}
		for _, below := range c.Commands() {
			look(below)
		}
	}
	look(root)
}

func TestHelpIsOfCommandsThatExist(t *testing.T) {
	texts, err := helpTexts()
	if err != nil {
		t.Fatal(err)
	}
	root := root(new(command.Env))
	for path := range texts {
		if c, _, err := root.Find(strings.Fields(path)[1:]); err != nil || c.CommandPath() != path {
			t.Errorf("there is help for %s, which is no command", path)
		}
	}
}

// maxFirstLevel is how many commands a person finds one in at a glance, completion and help included.
const maxFirstLevel = 27

func TestOverviewFits24Rows(t *testing.T) {
	root := root(new(command.Env))
	text, err := overview(root)
	if err != nil {
		t.Fatal(err)
	}
	// The last row of the terminal is that of the shell's next line.
	if rows := strings.Count(text, "\n"); rows > 23 || len(groups) != 4 {
		t.Errorf("%d rows in %d groups, want at most 23 in 4:\n%s", rows, len(groups), text)
	}
	for line := range strings.Lines(text) {
		if terminal.Width(line) > helpColumns {
			t.Errorf("%q is too wide", line)
		}
	}
	root.InitDefaultHelpCmd()
	if n := len(slices.DeleteFunc(slices.Clone(root.Commands()), func(c *cobra.Command) bool { return c.Hidden })); n > maxFirstLevel {
		t.Errorf("%d commands at the first level, want at most %d: put them below a group", n, maxFirstLevel)
	}
	for _, c := range root.Commands() {
		if c.GroupID == "" && !c.Hidden && c.Name() != "completion" && c.Name() != "help" {
			t.Errorf("%s is in no group", c.Name())
		}
	}
}
