package cli

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
)

// help has the texts of --help, a file for each command of symbio with those below it. A text begins with "# COMMAND" and a
// line that says what the command does; what follows "Examples:" are examples.
//
//go:embed help
var help embed.FS

// helpTexts returns the texts by the command.
func helpTexts() (map[string]string, error) {
	files, err := fs.Glob(help, "help/*.txt")
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, name := range files {
		text, err := help.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for _, section := range strings.Split("\n"+string(text), "\n# ")[1:] {
			path, rest, _ := strings.Cut(section, "\n")
			texts[path] = strings.TrimSuffix(rest, "\n")
		}
	}
	return texts, nil
}

// addHelp gives root and every command below it its texts.
func addHelp(root *cobra.Command) error {
	texts, err := helpTexts()
	if err != nil {
		return err
	}
	return addTexts(root, texts)
}

func addTexts(c *cobra.Command, texts map[string]string) error {
	if text, ok := texts[c.CommandPath()]; ok {
		text, c.Example, _ = strings.Cut(text, "\n\nExamples:\n")
		c.Short, c.Long, _ = strings.Cut(text, "\n\n")
	} else if c.Short == "" {
		return fmt.Errorf("%s has no help", c.CommandPath())
	}
	for _, below := range c.Commands() {
		if err := addTexts(below, texts); err != nil {
			return err
		}
	}
	return nil
}

// helpOnDemand has the texts read when they are shown, or when a shell completes a command: most runs need none.
func helpOnDemand(root *cobra.Command, args []string) error {
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return addHelp(root)
	}
	show := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if err := addHelp(root); err != nil {
			c.PrintErrln(err)
		}
		show(c, args)
	})
	return nil
}
