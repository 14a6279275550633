package cli

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// help holds the texts of --help: a file for each command of symbio, with the texts of the commands
// below it. A text begins with "# COMMAND" and a line that says what the command does (Short); the
// paragraphs after it are Long, and what follows "Examples:" are the examples. They are files so
// that they can be read and wrapped as text.
//
//go:embed help
var help embed.FS

// helpColumns is the width of help. It is the same on every terminal, and in a file or a pipe, so
// that the texts can be wrapped by hand.
const helpColumns = 80

// helpTexts returns the texts by the path of the command, such as "symbio skills list". A text ends
// where the next line with "# " begins, so no text can contain such a line.
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

// addHelp sets the texts of root and of every command below it. A command without a text is an
// error.
func addHelp(root *cobra.Command) error {
	texts, err := helpTexts()
	if err != nil {
		return err
	}
	return addTexts(root, texts)
}

// addTexts sets the texts of c and of the commands below it. Commands of cobra itself (completion,
// help) bring their own Short. A test sets the texts of all commands, so the error never reaches a
// user.
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

// helpOnDemand makes the texts available when help is shown or a shell completes a command. Reading
// them takes longer than most commands, which need none of them. args are the arguments of the run.
// It must be called before cobra parses them.
func helpOnDemand(root *cobra.Command, args []string) error {
	// cobra's completion reads Short directly and calls no function of help.
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return addHelp(root)
	}
	// Only flags, which cobra does not wrap, and the last line, which is too long, are printed in another way than by cobra itself.
	root.SetUsageTemplate(strings.NewReplacer(".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", helpColumns),
		`Use "{{.CommandPath}} [command] --help" for more information about a command.`, "More about one of them: {{.CommandPath}} COMMAND --help").Replace(root.UsageTemplate()))
	// The texts are set when help is shown: HelpFunc is looked up at the command and then at those
	// above it, so the one of root serves all.
	show := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if err := addHelp(root); err != nil {
			c.PrintErrln(err)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "string" {
				f.NoOptDefVal = "" // it stands for a value that is left out; pflag would print --resume ID[="?"]
			}
		})
		show(c, args)
	})
	return nil
}
