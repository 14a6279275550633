package skillcmd

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/skills/format"
	"symbio/skills/lint"
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
	// dir is the directory of the skill, and shown the same as a person types it.
	dir, shown string
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
			if err := d.ask(cmd.Context(), env); err != nil {
				return err
			}
			switch {
			case user && (project || parent != "") || project && parent != "":
				return command.Usage(errors.New("--project, --user and --dir exclude each other"))
			case user:
				parent = filepath.Join(env.Getenv("HOME"), ".agents", "skills")
			}
			d.shown = filepath.Join(cmp.Or(parent, filepath.Join(".agents", "skills")), d.Name)
			d.dir = d.shown
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
	return cmd
}

// ask asks a person at a terminal for the name and the description if they are missing. Elsewhere
// that is a usage error.
func (d *draft) ask(ctx context.Context, env *command.Env) error {
	for _, one := range []struct {
		to             *string
		question, flag string
	}{
		{&d.Name, "Name (lower-case letters, digits, hyphens)", "NAME"},
		{&d.Description, "What does it do, and when should an agent use it", "--description"},
	} {
		if *one.to != "" {
			continue
		}
		if !env.InIsTerminal || env.JSON {
			return command.Usage(fmt.Errorf("%s is missing, and there is no terminal to ask: symbio skills new NAME --description TEXT", one.flag))
		}
		fmt.Fprintf(env.Err, "%s: ", one.question)
		line, err := env.ReadLine(ctx)
		if err != nil {
			return err
		}
		*one.to = strings.TrimSpace(line)
	}
	return nil
}

// create writes the files of the skill, if the SKILL.md has no error. It replaces nothing that
// exists.
func (d *draft) create(env *command.Env) error {
	for _, name := range []string{d.Script, d.Reference} {
		if name != "" && (!filepath.IsLocal(name) || strings.ContainsAny(name, "/\\ \n")) {
			return command.Usage(fmt.Errorf("%q is no file name without directories and spaces", name))
		}
	}
	files := map[string]string{"SKILL.md": "SKILL.md"}
	if d.Script != "" {
		files[filepath.Join("scripts", d.Script)] = "script"
	}
	if d.Reference != "" {
		files[filepath.Join("references", d.Reference)] = "reference.md"
	}
	text, err := d.fill("SKILL.md")
	if err != nil {
		return err
	}
	_, _, found := format.Parse(text, d.Name, format.Policy{Level: format.Strict})
	for _, f := range found {
		if f.Severity != format.Note {
			return command.Usage(fmt.Errorf("the skill was not written: %s: %s", cmp.Or(f.Field, "SKILL.md"), f.Message))
		}
	}
	if err := os.MkdirAll(filepath.Dir(d.dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		return fmt.Errorf("write the skill %s: %w; choose another name", d.Name, err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := d.write(name, files[name]); err != nil {
			return err
		}
	}
	return d.print(env, slices.Sorted(maps.Keys(files)))
}

// fill returns a template with the fields of d.
func (d *draft) fill(name string) ([]byte, error) {
	t, err := template.New("").Funcs(template.FuncMap{"yaml": yamlText}).ParseFS(drafts, "draft/*")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.ExecuteTemplate(&b, name, d)
	return b.Bytes(), err
}

// yamlText returns a text as a quoted YAML value, which is that of JSON.
func yamlText(text string) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(text)
	return strings.TrimSpace(b.String()), err
}

// write writes one file of the skill. A script gets the executable bit.
func (d *draft) write(file, from string) error {
	text, err := d.fill(from)
	if err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if from == "script" {
		mode = 0o755
	}
	file = filepath.Join(d.dir, file)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, mode)
}

// print says what was written, and what to do next. With --json the names are a contract.
func (d *draft) print(env *command.Env, files []string) error {
	for _, found := range lint.Check(d.dir, lintConfig(format.Standard)) {
		env.Notef("note: %s: %s", found.Field, found.Message)
	}
	if env.JSON {
		return env.PrintJSON(struct {
			Name  string   `json:"name"`
			Dir   string   `json:"dir"`
			Files []string `json:"files"`
		}{d.Name, d.dir, files})
	}
	for _, name := range files {
		fmt.Fprintf(env.Out, "%s\n", terminal.Printable(filepath.Join(d.shown, name)))
	}
	env.Notef("next: edit %s/SKILL.md, then\n  symbio skills validate %[1]s\n  symbio skills trust %s\n  symbio run '$%[2]s …'", d.shown, d.Name)
	return nil
}
