package skillcmd

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/skills/lint"
	"symbio/skills/format"
)

// drafts are the files of a new skill, as templates of a draft.
//
//go:embed draft
var drafts embed.FS

// draft is a skill that is to be written.
type draft struct {
	Name, Description, Tools string
	// Script and Reference are the names of files in scripts and references; "" = none.
	Script, Reference string
	// dir is the directory of the skill.
	dir string
}

// cmdSkillsNew returns the command skills new. Its exit status is 2 when something that it needs is
// not given and cannot be asked for.
func cmdSkillsNew(env *command.Env) *cobra.Command {
	var d draft
	var user, project bool
	var parent string
	cmd := &cobra.Command{
		Use:  "new NAME",
		Args: command.RangeArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d.Name = strings.Join(args, "")
			if err := errors.Join(d.ask(cmd.Context(), env, &d.Name, "NAME", "Name (lower-case letters, digits, hyphens)"),
				d.ask(cmd.Context(), env, &d.Description, "--description", "What does it do, and when should an agent use it")); err != nil {
				return err
			}
			parent = cmp.Or(parent, filepath.Join(".agents", "skills"))
			if user {
				parent = filepath.Join(env.Getenv("HOME"), ".agents", "skills")
			}
			d.dir = filepath.Join(parent, d.Name)
			return d.create(env)
		},
	}
	cmd.Flags().StringVar(&d.Description, "description", "", "what the skill does and when to use it, as `TEXT`")
	cmd.Flags().StringVar(&d.Tools, "tools", "", "`RULES` to ask for, such as 'Bash(git log:*) Read'")
	cmd.Flags().StringVar(&d.Script, "script", "", "add an example script `FILE` in scripts")
	cmd.Flags().StringVar(&d.Reference, "reference", "", "add a `FILE` in references")
	cmd.Flags().BoolVar(&project, "project", false, "write into .agents/skills of this directory (default)")
	cmd.Flags().BoolVar(&user, "user", false, "write into .agents/skills of your home directory")
	cmd.Flags().StringVar(&parent, "dir", "", "write into `DIR`")
	cmd.MarkFlagsMutuallyExclusive("project", "user", "dir")
	return cmd
}

// ask asks a person at a terminal for a text if it is missing. Elsewhere that is a usage error.
func (d *draft) ask(ctx context.Context, env *command.Env, to *string, name, question string) (err error) {
	switch {
	case *to != "":
	case !env.InIsTerminal || env.JSON:
		return command.Usage(fmt.Errorf("%s is missing, and there is no terminal to ask: symbio skills new NAME --description TEXT", name))
	default:
		fmt.Fprintf(env.Err, "%s: ", question)
		*to, err = command.ReadLine(ctx, env.In)
	}
	return err
}

// create writes the files of the skill, if the SKILL.md has no error, and prints what to do next. It
// replaces nothing that exists. With --json the names are a contract.
func (d *draft) create(env *command.Env) error {
	if err := d.check(); err != nil {
		return command.Usage(fmt.Errorf("the skill was not written: %w", err))
	}
	if _, err := os.Lstat(d.dir); err == nil {
		return fmt.Errorf("%s exists; choose another name", terminal.Printable(d.dir))
	}
	files, err := d.write()
	if err != nil {
		return err
	}
	for _, found := range lint.Check(d.dir, lintConfig(format.Policy{Level: format.Standard})) {
		env.Notef("note: %s: %s", found.Field, found.Message)
	}
	if env.JSON {
		return env.PrintJSON(map[string]any{"name": d.Name, "dir": d.dir, "files": files})
	}
	fmt.Fprintln(env.Out, strings.Join(files, "\n"))
	env.Notef("next: edit %s, then\n  symbio skills validate %s\n  symbio skills trust %s\n  symbio run '$%[3]s …'", files[0], d.dir, d.Name)
	return nil
}

// fill returns a template with the fields of d.
func (d *draft) fill(name string) ([]byte, error) {
	var text bytes.Buffer
	err := template.Must(template.ParseFS(drafts, "draft/*")).ExecuteTemplate(&text, name, d)
	return text.Bytes(), err
}

// check returns what is wrong with the names, or with the SKILL.md.
func (d *draft) check() error {
	for _, name := range []string{d.Script, d.Reference} {
		if strings.ContainsAny(name, "/\\ \n") || name == ".." {
			return fmt.Errorf("%q is no file name without directories and spaces", name)
		}
	}
	text, err := d.fill("SKILL.md")
	if err != nil {
		return err
	}
	_, _, found := format.Parse(text, d.Name, format.Policy{Level: format.Strict})
	for _, f := range found {
		if f.Severity != format.Note {
			return fmt.Errorf("%s: %s", cmp.Or(f.Field, "SKILL.md"), f.Message)
		}
	}
	return nil
}

// write writes the files, the SKILL.md first, and returns their paths.
func (d *draft) write() (files []string, err error) {
	for _, f := range []struct {
		dir, name, from string
		mode            os.FileMode
	}{{"", "SKILL.md", "SKILL.md", 0o644}, {"references", d.Reference, "reference.md", 0o644}, {"scripts", d.Script, "script", 0o755}} {
		if f.name == "" {
			continue
		}
		text, err := d.fill(f.from)
		file := filepath.Join(d.dir, f.dir, f.name)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, f.mode)); err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}
