package agentcmd

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"symbio/cmd/symbio/internal/command"
)

//go:embed programs.yaml
var programsText []byte

// program is an agent of other makers that speaks the Agent Client Protocol. programs.yaml says what each field means. The
// JSON names are a contract.
type program struct {
	Name     string   `json:"name" yaml:"-"`
	Title    string   `json:"title"`
	Registry string   `json:"registry,omitempty"`
	Command  []string `json:"command"`
	Install  string   `json:"install,omitempty"`
	Login    []string `json:"login,omitempty"`
	SignIn   string   `json:"sign_in,omitempty" yaml:"sign_in"`
	Keys     []string `json:"keys,omitempty"`
	Env      []string `json:"env,omitempty"`
	Hosts    []string `json:"hosts,omitempty"`
	Model    string   `json:"model,omitempty"`
}

// knownPrograms returns the programs of programs.yaml, sorted by name. A test reads the file, so its error is one of a build.
func knownPrograms() (all []program, err error) {
	byName := map[string]program{}
	if err := yaml.Unmarshal(programsText, &byName); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		p := byName[name]
		p.Name = name
		all = append(all, p)
	}
	return all, nil
}

// maxRegistry limits the file of a registry, in bytes; the public one has 60 KiB.
const maxRegistry = 4 << 20

// registry is the part that is used of a copy of the registry of ACP agents (registry.json).
type registry struct {
	Agents []struct {
		ID, Name     string
		Distribution struct {
			NPX, UVX *packageDistribution
			Binary   map[string]binaryDistribution
		}
	}
}

// packageDistribution is a package of npm or of PyPI.
type packageDistribution struct {
	Package string
	Args    []string
	Env     map[string]string
}

// binaryDistribution is a program in an archive, for one platform.
type binaryDistribution struct {
	Archive, Cmd string
	Args         []string
	Env          map[string]string
}

// readRegistry returns the programs of a registry's file that run on this platform. One that is known has the login, the hosts
// and the other fields of programs.yaml, too, and the name that it has there.
func readRegistry(file string, known []program) (all []program, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, command.NotFound(err)
	}
	defer f.Close()
	var r registry
	if err := json.NewDecoder(io.LimitReader(f, maxRegistry)).Decode(&r); err != nil {
		return nil, fmt.Errorf("%s is no registry.json of ACP agents: %w", file, err)
	}
	for _, a := range r.Agents {
		p := program{Name: a.ID, Registry: a.ID, Title: a.Name}
		if i := slices.IndexFunc(known, func(k program) bool { return k.Registry == a.ID }); i >= 0 {
			p = known[i]
		}
		d := a.Distribution
		binary, here := d.Binary[platform()]
		switch {
		case d.NPX != nil:
			p.take(d.NPX.Args, d.NPX.Env, "npm install -g "+d.NPX.Package, []string{"npx", "-y", d.NPX.Package}, "registry.npmjs.org")
		case d.UVX != nil:
			p.take(d.UVX.Args, d.UVX.Env, "uv tool install "+d.UVX.Package, []string{"uvx", d.UVX.Package}, "pypi.org", "files.pythonhosted.org")
		case here:
			name := path.Base(strings.ReplaceAll(binary.Cmd, `\`, "/"))
			p.take(binary.Args, binary.Env, fmt.Sprintf("unpack %s and put %s on your PATH", binary.Archive, binary.Cmd), []string{name})
		default:
			continue
		}
		all = append(all, p)
	}
	return all, nil
}

// take sets the command and its variables as the registry has them. A program that is known keeps its own name, without the
// programs that download it, and its hosts.
func (p *program) take(args []string, env map[string]string, install string, argv []string, hosts ...string) {
	if len(p.Command) > 0 {
		argv = p.Command[:1]
	} else {
		p.Hosts = hosts
	}
	p.Command, p.Install = slices.Concat(argv, args), install
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if v := name + "=" + env[name]; !slices.Contains(p.Env, v) {
			p.Env = append(p.Env, v)
		}
	}
}

// platform returns the name of this platform in the registry.
func platform() string {
	return runtime.GOOS + "-" + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
}
