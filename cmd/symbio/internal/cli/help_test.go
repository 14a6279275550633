package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
)

func TestEachCommandHasHelpWithAnExample(t *testing.T) {
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
