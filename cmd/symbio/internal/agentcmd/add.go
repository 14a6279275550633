package agentcmd

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"symbio/agent/definition"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/agent/guest/egress"
	"symbio/internal/security/visible"
)

// addition is the arguments of agents add.
type addition struct {
	config, registry, model string
	hosts                   []string
	list, force             bool
}

// cmdAgentsAdd returns the command agents add. It writes the definition of an agent that is another program, and starts
// nothing. Its exit status is 1 if the file exists, 2 if the command is not known and not given, and 4 for a registry that
// does not exist.
func cmdAgentsAdd(env *command.Env) *cobra.Command {
	var a addition
	cmd := &cobra.Command{
		Use: "add NAME [-- COMMAND ARGS...]",
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := knownPrograms()
			if err == nil && a.registry != "" {
				all, err = readRegistry(a.registry, all)
			}
			switch {
			case err != nil:
				return err
			case a.list:
				return listPrograms(env, all)
			case len(args) == 0:
				return command.Usage(errors.New("which agent? symbio agents add --list prints those that are known"))
			}
			p, err := a.choose(all, args[0], args[1:])
			if err != nil {
				return command.Usage(err)
			}
			return a.write(env, p)
		},
	}
	cmd.Flags().BoolVar(&a.list, "list", false, "print the agents that are known, with their commands, and add none")
	cmd.Flags().StringVar(&a.registry, "registry", "", "take the agent from `FILE`, a copy of the registry of ACP agents (registry.json)")
	cmd.Flags().StringVar(&a.model, "model", "", "`MODEL` of the agent, as its program calls it (default its own)")
	cmd.Flags().StringArrayVar(&a.hosts, "host", nil, "`HOST`, *.HOST or either with :PORT that it may reach, too, such as that of its model's provider; may be repeated")
	cmd.Flags().BoolVar(&a.force, "force", false, "replace the file if it exists")
	command.ConfigFlag(cmd, &a.config)
	return cmd
}

// listPrograms prints programs, and whether each is on the PATH.
func listPrograms(env *command.Env, all []program) error {
	return command.PrintList(env, all, []string{"NAME", "HERE", "COMMAND", "INSTALL", "HOSTS"}, func(p program) []string {
		here := "no"
		if _, err := exec.LookPath(p.Command[0]); err == nil {
			here = "yes"
		}
		return []string{p.Name, here, strings.Join(p.Command, " "), p.Install, strings.Join(p.Hosts, ",")}
	})
}

// choose returns the program that is named, with another command if one is given, and with the model and hosts of the flags.
func (a addition) choose(all []program, name string, argv []string) (program, error) {
	i := slices.IndexFunc(all, func(p program) bool { return p.Name == name || p.Registry == name })
	p := program{Name: name, Title: name}
	switch {
	case i >= 0:
		p = all[i]
	case len(argv) == 0:
		names := command.Map(all, func(p program) string { return p.Name })
		return p, fmt.Errorf("no agent is known as %s%s\nGive its command: symbio agents add %[1]s -- COMMAND ARGS", terminal.Printable(name), visible.Suggest(name, names))
	case !definition.IsName(name):
		return p, fmt.Errorf("%q cannot be the name of an agent", name)
	}
	if len(argv) > 0 {
		p.Command = argv
	}
	p.Hosts = slices.Concat(p.Hosts, a.hosts)
	if _, err := egress.New(egress.Config{Hosts: p.Hosts}); err != nil {
		return p, fmt.Errorf("--host: %w", err)
	}
	switch {
	case a.model == "":
	case strings.HasSuffix(p.Model, "="):
		p.Env = append(p.Env, p.Model+a.model)
	case p.Model != "":
		p.Command = append(slices.Clone(p.Command), p.Model, a.model)
	}
	return p, nil
}

// acpKeys is the front matter of a definition of an agent that is another program.
type acpKeys struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	ACP         struct {
		Command []string `yaml:"command,flow"`
		Env     []string `yaml:"env,omitempty,flow"`
		Model   string   `yaml:"model,omitempty"`
		Login   []string `yaml:"login,omitempty,flow"`
		Hosts   []string `yaml:"hosts,omitempty,flow"`
	} `yaml:"acp"`
}

// instructions are the text of the definition.
const instructions = `Do the task that you are given in the working directory. Change nothing that it does not ask for. At the end, say what you have
changed, how you have checked it, and what you could not do.
`

// definitionText returns the text of the definition of a program. Of its files with settings, those that are not in home are
// left out; the file with its login is named in any case.
func (a addition) definitionText(p program, home string) ([]byte, error) {
	keys := acpKeys{Name: p.Name, Description: p.Title + ": does a task in a directory with tools of its own, such as to change code and run its tests."}
	keys.ACP.Command, keys.ACP.Hosts = p.Command, p.Hosts
	keys.ACP.Env = slices.Concat(p.Keys, p.Env)
	if p.Model == "" {
		keys.ACP.Model = a.model
	}
	for i, file := range p.Login {
		if _, err := os.Stat(inHome(home, file)); i == 0 || err == nil {
			keys.ACP.Login = append(keys.ACP.Login, file)
		}
	}
	var text bytes.Buffer
	enc := yaml.NewEncoder(&text)
	enc.SetIndent(2)
	err := enc.Encode(keys)
	return fmt.Appendf(nil, "---\n%s---\n%s", text.Bytes(), instructions), err
}

// inHome returns the path of a file of the table, which begins with ~/.
func inHome(home, file string) string { return filepath.Join(home, strings.TrimPrefix(file, "~/")) }

// write writes the definition and prints where it is, what is missing and how to run it. With --json the names are a
// contract.
func (a addition) write(env *command.Env, p program) error {
	opts, err := command.NodeConfig(env, a.config)
	if err != nil {
		return err
	}
	dir := opts.Settings.Agents
	if dir == "" && a.config != "" {
		return command.Usage(fmt.Errorf("%s names no directory of agents; add the line agents: agents", terminal.Printable(a.config)))
	}
	file := filepath.Join(cmp.Or(dir, env.UserAgents()), p.Name+".md")
	if _, err := os.Lstat(file); err == nil && !a.force {
		return fmt.Errorf("%s exists; edit it, or replace it with --force", terminal.Printable(file))
	}
	text, err := a.definitionText(p, opts.Home)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o644))
	}
	if err != nil {
		return err
	}
	missing := p.missing(env, opts.Home)
	if env.JSON {
		return env.PrintJSON(map[string]any{"name": p.Name, "file": file, "missing": append([]string{}, missing...)})
	}
	if err := env.Printf("%s\t%s\n", p.Name, file); err != nil {
		return err
	}
	for _, m := range missing {
		env.Notef("missing: %s", m)
	}
	if len(p.Hosts) == 0 {
		env.Notef("note: it reaches no host; name that of its model's provider with --host, or under hosts: in the file")
	}
	env.Notef("next: symbio run --agent %s \"…\"", p.Name)
	return nil
}

// missing says what is not on this machine yet: the program, and a login.
func (p program) missing(env *command.Env, home string) (all []string) {
	if _, err := exec.LookPath(p.Command[0]); err != nil {
		all = append(all, fmt.Sprintf("%s is not on your PATH: %s", p.Command[0], cmp.Or(p.Install, "install it")))
	}
	if len(p.Login) == 0 || slices.ContainsFunc(p.Keys, func(key string) bool { return env.Getenv(key) != "" }) {
		return all
	}
	if _, err := os.Stat(inHome(home, p.Login[0])); err != nil {
		all = append(all, fmt.Sprintf("a login: %s is not there; sign in with: %s; or set %s where the node is started", p.Login[0], p.SignIn, strings.Join(p.Keys, " or ")))
	}
	return all
}
