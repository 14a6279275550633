package skillcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"symbio/agent/node/config"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/agent/node/selection"
	"symbio/internal/security/visible"
	"symbio/skills"
)

// testsFile is the file of a skill with the tasks that should and should not select it.
const testsFile = "tests.yaml"

// Limits of testsFile: tasks, because each is a request to a model, and bytes.
const (
	maxTests     = 200
	maxTestsFile = 256 << 10
)

// cmdSkillsTest returns the command skills test. Its exit status is 1 if a task has another result
// than expected, and 4 if there is no such skill. It starts no agent, and runs no tool.
func cmdSkillsTest(env *command.Env) *cobra.Command {
	var model, task, expect, file string
	cmd := &cobra.Command{
		Use:               "test NAME",
		Args:              command.ExactArgs(1),
		ValidArgsFunction: CompleteSkills(env),
		RunE: func(cmd *cobra.Command, args []string) error {
			if expect != "select" && (expect != "ignore" || task == "") {
				return command.Usage(fmt.Errorf("--expect: want select or ignore with a --task, not %q", expect))
			}
			here, err := loadSkills(env, file, "")
			if err != nil {
				return err
			}
			catalog, err := skills.Scan(cmd.Context(), here.cfg)
			if err != nil {
				return err
			}
			one, err := catalog.Resolve(skillArg(args[0]), here.cfg.Duplicates)
			if err != nil {
				return command.NotFound(err)
			}
			if !one.ForModels() {
				return fmt.Errorf("test the skill %s: no model is shown it: %s", one.Name, here.state(one))
			}
			tests := []selectionResult{{Task: task, Expect: expect}}
			if task == "" {
				if tests, err = readTests(one); err != nil {
					return err
				}
			}
			return testSelection(cmd.Context(), env, here, catalog, one, tests, model)
		},
	}
	cmd.Flags().StringVar(&model, "model", "", "`MODEL` to ask, such as openai:NAME or scripted:FILE (default as configured)")
	cmd.Flags().StringVar(&task, "task", "", "`TEXT` of one task, instead of those in tests.yaml")
	cmd.Flags().StringVar(&expect, "expect", "select", "what the model should do for --task, `RESULT` select or ignore")
	command.ConfigFlag(cmd, &file)
	return cmd
}

// readTests reads the tests of a skill: those for which a model should take it, then the others.
func readTests(one skills.Skill) (tests []selectionResult, err error) {
	text, err := one.Resource(testsFile)
	if err != nil {
		return nil, command.Usage(fmt.Errorf("%w; write a %s with the lists select and ignore, or give a --task", err, testsFile))
	}
	var lists struct{ Select, Ignore []string }
	d := yaml.NewDecoder(strings.NewReader(text[:min(len(text), maxTestsFile)]))
	d.KnownFields(true)
	if err := d.Decode(&lists); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s of the skill %s: %s", testsFile, one.Name, visible.Line(err.Error(), 300))
	}
	for i, task := range slices.Concat(lists.Select, lists.Ignore) {
		tests = append(tests, selectionResult{Task: task, Expect: map[bool]string{true: "select", false: "ignore"}[i < len(lists.Select)]})
	}
	if n := len(tests); n == 0 || n > maxTests {
		return nil, fmt.Errorf("%s of the skill %s has %d tasks under select and ignore; want 1 to %d", testsFile, one.Name, n, maxTests)
	}
	return tests, nil
}

// selectionResult is the result of one task. The JSON names are a contract.
type selectionResult struct {
	Task   string `json:"task"`
	Expect string `json:"expect"`
	// Taken are the skills that the model asked for, and OK reports that this is as expected.
	Taken []string `json:"taken"`
	OK    bool     `json:"ok"`
	Error string   `json:"error,omitempty"`
}

// testSelection asks the model about each task and prints the results. The error says how many are
// not as expected. The JSON names are a contract.
func testSelection(ctx context.Context, env *command.Env, here localSkills, catalog skills.Catalog, one skills.Skill, tests []selectionResult, name string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	c := config.Config{Model: config.Models(name)}
	c.Resolve(dir) // scripted:FILE
	asked, err := selection.Open(ctx, selection.Config{Settings: here.opts.Settings, Catalog: catalog, Prompt: here.opts.Skills().Prompt(),
		Getenv: env.Getenv, Logger: here.opts.Logger}, string(c.Model))
	if err != nil {
		return err
	}
	defer asked.Close()
	failed := 0
	for i := range tests {
		r := &tests[i]
		r.Taken, err = asked.Select(ctx, r.Task)
		if r.OK = err == nil && slices.Contains(r.Taken, one.Name) == (r.Expect == "select"); err != nil {
			r.Error = command.ErrorText(ctx, err)
		}
		if !r.OK {
			failed++
		}
	}
	if env.JSON {
		err = env.PrintJSON(map[string]any{"skill": one.Name, "model": asked.Model(), "tests": tests})
	} else {
		err = command.PrintList(env, tests, []string{"RESULT", "EXPECTED", "TAKEN", "TASK"}, func(r selectionResult) []string {
			verdict := map[bool]string{true: "ok", false: "not ok"}[r.OK]
			return []string{verdict, r.Expect, cmp.Or(r.Error, strings.Join(r.Taken, " "), "-"), visible.TruncateRunes(terminal.Printable(r.Task), 100)}
		})
	}
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d of %s not as expected", failed, visible.Plural(len(tests), "task"))
	}
	return err
}
