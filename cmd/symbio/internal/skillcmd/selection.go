package skillcmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/agent/node"
	"symbio/agent/node/config"
	"symbio/agent/node/models"
	"symbio/agent/tool/skill"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/security/visible"
	"symbio/skills"
)

// testsFile is the file of a skill with the tasks that should and should not select it.
const testsFile = "tests.yaml"

// Limits of testsFile: tasks, because each is a request to a model, and bytes.
const (
	maxTests     = 200
	maxTestsFile = 256 << 10
)

// selectionTests are the tasks for which a model should take a skill, and those for which it should
// not.
type selectionTests struct {
	Select []string `yaml:"select"`
	Ignore []string `yaml:"ignore"`
}

// cmdSkillsTest returns the command skills test. Its exit status is 1 if a task has another result
// than expected, and 4 if there is no such skill. It starts no agent, and runs no tool.
func cmdSkillsTest(env *command.Env) *cobra.Command {
	var model, task, expect, file string
	cmd := &cobra.Command{
		Use:               "test NAME",
		Args:              command.ExactArgs(1),
		ValidArgsFunction: completeSkills(env),
		RunE: func(cmd *cobra.Command, args []string) error {
			tests, err := flagTests(task, expect)
			if err != nil {
				return command.Usage(err)
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
			switch {
			case err != nil:
				return command.NotFound(err)
			case !one.ForModels():
				return fmt.Errorf("test the skill %s: no model is shown it: %s", one.Name, here.state(one))
			case task == "":
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
	cmd.Flags().StringVar(&file, "config", "", "configuration `FILE` (default symbio/symbio.yaml in your configuration directory)")
	return cmd
}

// flagTests returns the task that flags name.
func flagTests(task, expect string) (selectionTests, error) {
	switch {
	case expect == "select":
		return selectionTests{Select: []string{task}}, nil
	case expect == "ignore" && task != "":
		return selectionTests{Ignore: []string{task}}, nil
	}
	return selectionTests{}, fmt.Errorf("--expect: want select or ignore with a --task, not %q", expect)
}

// readTests reads the tests of a skill.
func readTests(one skills.Skill) (tests selectionTests, err error) {
	text, err := one.Resource(testsFile)
	if err != nil {
		return tests, command.Usage(fmt.Errorf("%w; write a %s with the lists select and ignore, or give a --task", err, testsFile))
	}
	d := yaml.NewDecoder(strings.NewReader(text[:min(len(text), maxTestsFile)]))
	d.KnownFields(true)
	if err := d.Decode(&tests); err != nil && !errors.Is(err, io.EOF) {
		return tests, fmt.Errorf("read %s of the skill %s: %s", testsFile, one.Name, visible.Line(err.Error(), 300))
	}
	if n := len(tests.Select) + len(tests.Ignore); n == 0 || n > maxTests {
		return tests, fmt.Errorf("%s of the skill %s has %d tasks under select and ignore; want 1 to %d", testsFile, one.Name, n, maxTests)
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
// not as expected.
func testSelection(ctx context.Context, env *command.Env, here localSkills, catalog skills.Catalog, one skills.Skill, tests selectionTests, name string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	c := config.Config{Model: config.Models(name)}
	c.Resolve(dir) // scripted:FILE
	all := models.New(models.Config{Settings: here.opts.Settings, Getenv: env.Getenv, Logger: here.opts.Logger})
	defer all.Close()
	model, err := all.Open(ctx, string(c.Model))
	if err != nil {
		return err
	}
	ask := newChooser(model, here.opts, catalog)
	results := []selectionResult{}
	failed := 0
	for i, task := range slices.Concat(tests.Select, tests.Ignore) {
		r := selectionResult{Task: task, Expect: "select"}
		if i >= len(tests.Select) {
			r.Expect = "ignore"
		}
		r.Taken, err = ask.choose(ctx, task)
		if r.OK = err == nil && slices.Contains(r.Taken, one.Name) == (r.Expect == "select"); err != nil {
			r.Error = command.ErrorText(ctx, err)
		}
		if !r.OK {
			failed++
		}
		results = append(results, r)
	}
	if err := printSelection(env, one.Name, model.Name(), results); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d tasks are not as expected", failed, len(results))
	}
	return nil
}

// printSelection prints the results. The JSON names are a contract.
func printSelection(env *command.Env, name, model string, results []selectionResult) error {
	if env.JSON {
		return env.PrintJSON(struct {
			Skill string            `json:"skill"`
			Model string            `json:"model"`
			Tests []selectionResult `json:"tests"`
		}{name, model, results})
	}
	return command.PrintList(env, results, []string{"RESULT", "EXPECTED", "TAKEN", "TASK"}, func(r selectionResult) []string {
		verdict := "ok"
		if !r.OK {
			verdict = "not ok"
		}
		return []string{verdict, r.Expect, cmp.Or(r.Error, strings.Join(r.Taken, " "), "-"), visible.TruncateRunes(terminal.Printable(r.Task), 100)}
	})
}

// chooser asks a model which skills it takes for a task, as an agent that begins with the task
// would. It runs nothing.
type chooser struct {
	model   llm.Model
	catalog skills.Catalog
	system  string
	tools   []llm.ToolSpec
}

// newChooser returns a chooser with the prompt and the tools for skills of the agent general.
func newChooser(model llm.Model, opts node.Config, catalog skills.Catalog) chooser {
	c := chooser{model: model, catalog: catalog, system: definition.General().Instructions + "\n\n" + skills.Render(catalog, opts.SkillPrompt()).Text}
	for _, t := range skill.Tools(skill.Config{Registry: fixedCatalog{&skills.Snapshot{Catalog: catalog}}, Names: opts.Settings.Skills.Tools, Shown: opts.SkillPrompt()}) {
		c.tools = append(c.tools, t.Spec())
	}
	return c
}

// choose returns the names of the skills that the model asks for in its first answer.
func (c chooser) choose(ctx context.Context, task string) ([]string, error) {
	r, err := llm.Collect(c.model.Stream(ctx, llm.Request{System: c.system, Tools: c.tools, Messages: []llm.Message{{Role: llm.User, Text: task}}}), nil)
	taken := []string{}
	for _, call := range r.Message.Calls {
		var args struct{ SkillName, Name, Path string }
		if call.Name != skill.Activate && call.Name != skill.Load || json.NewDecoder(bytes.NewReader(call.Args)).Decode(&args) != nil {
			continue
		}
		if one, err := c.catalog.Resolve(cmp.Or(args.Path, args.SkillName, args.Name), skills.DuplicatesPrecedence); err == nil {
			taken = append(taken, one.Name)
		}
	}
	return taken, err
}

// fixedCatalog is a registry from which nothing can be activated.
type fixedCatalog struct{ now *skills.Snapshot }

func (f fixedCatalog) Now() *skills.Snapshot { return f.now }

func (f fixedCatalog) Activate(context.Context, skills.ActivateRequest) (skills.Activation, error) {
	return skills.Activation{}, errors.ErrUnsupported
}

func (f fixedCatalog) Deactivate(context.Context, string, string) error { return errors.ErrUnsupported }
