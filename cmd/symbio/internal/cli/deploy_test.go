package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"symbio/agent/node/config"
	"symbio/cmd/symbio/internal/command"
)

// deploy is the folder with what starts symbio elsewhere.
const deploy = "../../../../deploy"

func TestDeployNamesOnlyCommandsAndFlagsThatExist(t *testing.T) {
	calls := map[string][][]string{
		"README.md":               readmeCalls(t),
		"systemd/symbio.service":  {unit(t)["Service"]["ExecStart"][1:]},
		"systemd/as-service":      commentCalls(t, "systemd/as-service"),
		"container/Containerfile": containerCalls(t),
		"k8s/symbio.yaml":         podCalls(t),
	}
	for file, list := range calls {
		if len(list) == 0 {
			t.Errorf("%s starts no symbio; has the test lost it?", file)
		}
		for _, args := range list {
			t.Logf("%s: symbio %s", file, strings.Join(args, " "))
			if err := wellFormed(args); err != nil {
				t.Errorf("%s: symbio %s: %v", file, strings.Join(args, " "), err)
			}
		}
	}
}

// wellFormed says what is wrong with the arguments of a call, without running it.
func wellFormed(args []string) error {
	root := root(new(command.Env))
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if cmd == root && len(cmd.Flags().Args()) > 0 {
		return fmt.Errorf("there is no command %q", cmd.Flags().Args()[0])
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

func TestWellFormedReportsMistakes(t *testing.T) {
	for args, want := range map[string]bool{
		"up": true, "up --listen 0.0.0.0:7946": true, "nodes --json": true, "skills list": true, "": true,
		"upp": false, "up --lissen x": false, "up --listen": false, "nodes extra": false, "members --watch=maybe": false, "invoke": false,
	} {
		if err := wellFormed(strings.Fields(args)); (err == nil) != want {
			t.Errorf("symbio %s: %v, want it to be well formed: %v", args, err, want)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deploy, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	inline = regexp.MustCompile("`([^`\n]+)`")
	// called finds a call of the program in a line of shell: after the program's name, up to what ends a command.
	called = regexp.MustCompile(`(?:^|[ /])(?:symbio|as-service) ([a-z][a-z-]*(?: [^|;&#]*)?)`)
	// elsewhere are commands of other programs in which the word symbio is a name of something else.
	elsewhere = regexp.MustCompile(`^(?:sudo )?(?:install|systemctl|journalctl|kubectl (?:create|apply|rollout|scale)|apt|dnf|make) `)
)

// readmeCalls are the calls in the page's blocks of shell and in its text.
func readmeCalls(t *testing.T) (calls [][]string) {
	text := strings.ReplaceAll(read(t, "README.md"), "\\\n", " ")
	shell, block := false, false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			block = !block
			shell = block && line == "```sh"
		case shell:
			calls = append(calls, callsIn(line)...)
		case !block:
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				calls = append(calls, callsIn(m[1])...)
			}
		}
	}
	return calls
}

func TestDeployPageConfigurationsAreValid(t *testing.T) {
	page := read(t, "README.md")
	shown := regexp.MustCompile("(?s)```yaml\n(.*?)```|echo '([a-z]+:.*?)'").FindAllStringSubmatch(page, -1)
	if len(shown) < 3 {
		t.Fatalf("found %d, want 3 or more", len(shown))
	}
	for _, m := range shown {
		if _, _, err := config.Parse("README.md", []byte(m[1]+m[2])); err != nil {
			t.Errorf("%v, in:\n%s", err, m[0])
		}
	}
}

func callsIn(line string) (calls [][]string) {
	line = strings.TrimSpace(strings.TrimPrefix(line, "#"))
	if elsewhere.MatchString(line) {
		return nil
	}
	// "podman run symbio ARGS" and "podman exec symbio symbio ARGS" end in the program's own arguments.
	for _, m := range called.FindAllStringSubmatch(strings.ReplaceAll(line, "-- /usr/bin/symbio", "symbio"), -1) {
		args := strings.Fields(strings.SplitN(m[1], "  ", 2)[0])
		if args[0] == "symbio" {
			args = args[1:]
		}
		calls = append(calls, args)
	}
	return calls
}

// commentCalls are the examples in a script's comments.
func commentCalls(t *testing.T, name string) (calls [][]string) {
	for line := range strings.Lines(read(t, name)) {
		if !strings.HasPrefix(line, "# ") {
			continue
		}
		for _, m := range regexp.MustCompile(`as-service ([a-z]+)`).FindAllStringSubmatch(line, -1) {
			calls = append(calls, []string{m[1]})
		}
	}
	return calls
}

// unit is the systemd unit: section, key, and the words of all its values.
func unit(t *testing.T) map[string]map[string][]string {
	t.Helper()
	out, section := map[string]map[string][]string{}, ""
	for line := range strings.Lines(read(t, "systemd/symbio.service")) {
		line = strings.TrimSpace(line)
		switch key, value, isKey := strings.Cut(line, "="); {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
			out[section] = map[string][]string{}
		case !isKey || section == "":
			t.Errorf("the unit has a line that is neither: %q", line)
		default:
			out[section][key] = append(out[section][key], strings.Fields(value)...)
		}
	}
	return out
}

func TestUnitIsHardened(t *testing.T) {
	service := unit(t)["Service"]
	for key, want := range map[string]string{
		"DynamicUser": "yes", "NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "ProtectSystem": "strict", "ProtectHome": "yes",
		"PrivateTmp": "yes", "PrivateDevices": "yes", "RestrictNamespaces": "yes", "SystemCallFilter": "@system-service", "UMask": "0077",
		"StateDirectoryMode": "0700",
	} {
		got, ok := service[key]
		if !ok || strings.Join(got, " ") != want {
			t.Errorf("%s=%s, want %s", key, strings.Join(got, " "), want)
		}
	}
	env := strings.Join(service["Environment"], " ")
	home := regexp.MustCompile(`HOME=(\S+)$`).FindStringSubmatch(env)
	if len(home) != 2 || strings.HasPrefix(home[1], "%S") || slices.Contains(service["WorkingDirectory"], home[1]) {
		t.Errorf("home is %v: skills there are trusted, so agents must not be able to write to it", home)
	}
	for _, setting := range []string{"XDG_STATE_HOME=%S", "XDG_CONFIG_HOME=%E"} {
		if !strings.Contains(env, setting) {
			t.Errorf("Environment=%s lacks %s", env, setting)
		}
	}
	script := read(t, "systemd/as-service")
	for _, same := range []string{"DynamicUser=yes", "User=symbio", "StateDirectory=symbio symbio-work", "WorkingDirectory=/var/lib/symbio-work", "EnvironmentFile=-/etc/symbio/environment", "XDG_STATE_HOME=/var/lib", "XDG_CONFIG_HOME=/etc", "HOME=/etc/symbio"} {
		if !strings.Contains(script, same) {
			t.Errorf("as-service lacks %s, so it would see another state than the unit", same)
		}
	}
}

func TestSystemdTakesTheUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("needs systemd-analyze, of the package systemd")
	}
	self, err := os.Executable() // a program that is there, in place of one that may not be installed
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "symbio.service")
	text := strings.ReplaceAll(read(t, "systemd/symbio.service"), "ExecStart=symbio ", "ExecStart="+self+" ")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", file).CombinedOutput()
	if err != nil || strings.Contains(string(out), file) { // mistakes that it forgives are printed only
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

func TestDeployScriptIsShell(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("this system has no sh")
	}
	if out, err := exec.Command(sh, "-n", filepath.Join(deploy, "systemd", "as-service")).CombinedOutput(); err != nil {
		t.Errorf("sh -n: %v\n%s", err, out)
	}
}

// instructions are the lines of the container file: an instruction and its arguments each.
func instructions(t *testing.T) (out [][2]string) {
	text := strings.ReplaceAll(read(t, "container/Containerfile"), "\\\n", " ")
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		out = append(out, [2]string{name, rest})
	}
	return out
}

func containerCalls(t *testing.T) (calls [][]string) {
	words := func(text string) (out []string) {
		if i := strings.IndexByte(text, '['); i < 0 || json.Unmarshal([]byte(text[i:]), &out) != nil {
			t.Errorf("%q is no list: the image has no shell to split it", text)
		}
		return out
	}
	for _, i := range instructions(t) {
		switch i[0] {
		case "ENTRYPOINT":
			if got := words(i[1]); len(got) != 1 || got[0] != "/usr/bin/symbio" {
				t.Errorf("ENTRYPOINT %v, want the program alone", got)
			}
		case "CMD":
			calls = append(calls, words(i[1]))
		case "HEALTHCHECK":
			calls = append(calls, words(i[1])[1:])
		}
	}
	return calls
}

func TestImageHoldsProgramOnly(t *testing.T) {
	known := []string{"FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
	base, user := "", ""
	for _, i := range instructions(t) {
		switch i[0] {
		case "FROM":
			base, user = i[1], ""
		case "USER":
			user = i[1]
		case "RUN":
			if base == "scratch" {
				t.Errorf("RUN %s: there is no shell in the image", i[1])
			}
		}
		if !slices.Contains(known, i[0]) {
			t.Errorf("unknown instruction %s", i[0])
		}
	}
	if base != "scratch" || user != "65532:65532" {
		t.Errorf("the image is made of %q and runs as %q, want scratch and 65532:65532", base, user)
	}
}

// manifest is as much of the Kubernetes objects as the test looks at.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		ClusterIP                string `yaml:"clusterIP"`
		PublishNotReadyAddresses bool   `yaml:"publishNotReadyAddresses"`
		ServiceName              string `yaml:"serviceName"`
		Selector                 map[string]any
		Ports                    []struct {
			Name string
			Port int
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				SecurityContext struct {
					RunAsNonRoot        bool   `yaml:"runAsNonRoot"`
					FSGroupChangePolicy string `yaml:"fsGroupChangePolicy"`
				} `yaml:"securityContext"`
				InitContainers []container `yaml:"initContainers"`
				Containers     []container
				Volumes        []struct{ Name string }
			}
		}
		VolumeClaimTemplates []struct{ Metadata struct{ Name string } } `yaml:"volumeClaimTemplates"`
	}
}

type container struct {
	Name, Image string
	Command     []string
	Args        []string
	Env         []struct {
		Name      string
		ValueFrom struct {
			SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	Ports []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	ReadinessProbe  probe `yaml:"readinessProbe"`
	LivenessProbe   probe `yaml:"livenessProbe"`
	SecurityContext struct {
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct{ Drop []string }
	} `yaml:"securityContext"`
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type probe struct{ Exec struct{ Command []string } }

func manifests(t *testing.T) map[string]manifest {
	t.Helper()
	out := map[string]manifest{}
	dec := yaml.NewDecoder(bytes.NewReader([]byte(read(t, "k8s/symbio.yaml"))))
	for {
		var m manifest
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		out[m.Kind] = m
	}
}

func podCalls(t *testing.T) (calls [][]string) {
	pod := manifests(t)["StatefulSet"].Spec.Template.Spec
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		for _, command := range [][]string{append(c.Command, c.Args...), c.ReadinessProbe.Exec.Command, c.LivenessProbe.Exec.Command} {
			if len(command) == 0 {
				continue
			}
			if command[0] != "/usr/bin/symbio" {
				t.Errorf("%s runs %v; the image holds only /usr/bin/symbio", c.Name, command)
			}
			calls = append(calls, command[1:])
		}
	}
	return calls
}

func TestPodsFindEachOtherAndToken(t *testing.T) {
	all := manifests(t)
	service, set := all["Service"], all["StatefulSet"]
	if service.Spec.ClusterIP != "None" || !service.Spec.PublishNotReadyAddresses {
		t.Errorf("the service is %+v, want a headless one that lists pods before they are ready", service.Spec)
	}
	if set.Spec.ServiceName != service.Metadata.Name || set.Spec.Template.Metadata.Labels["app"] != service.Spec.Selector["app"] {
		t.Errorf("the pods are not of the service %s", service.Metadata.Name)
	}
	c, _, err := config.Parse("symbio.yaml", []byte(all["ConfigMap"].Data["symbio.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	node := set.Spec.Template.Spec.Containers[0]
	port := service.Spec.Ports[0]
	if want := []string{fmt.Sprintf("_%s._tcp.%s", port.Name, service.Metadata.Name)}; !slices.Equal(c.Discovery.DNS, want) {
		t.Errorf("discovery.dns is %v, want the service's: %v", c.Discovery.DNS, want)
	}
	if !strings.HasSuffix(c.Node.Listen, fmt.Sprint(":", port.Port)) || node.Ports[0].ContainerPort != port.Port {
		t.Errorf("the node listens on %s, the pod's port is %d and the service's %d", c.Node.Listen, node.Ports[0].ContainerPort, port.Port)
	}
	if c.Discovery.MDNS {
		t.Error("mDNS is on")
	}
	page := read(t, "README.md")
	for _, e := range set.Spec.Template.Spec.InitContainers[0].Env {
		ref := e.ValueFrom.SecretKeyRef
		if !strings.Contains(page, "secret generic "+ref.Name+" ") || !strings.Contains(page, "--from-literal="+ref.Key+"=") {
			t.Errorf("README.md does not make the secret %s with %s", ref.Name, ref.Key)
		}
	}
}

func TestPodsAreHardened(t *testing.T) {
	set := manifests(t)["StatefulSet"]
	pod := set.Spec.Template.Spec
	if !pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.FSGroupChangePolicy != "OnRootMismatch" {
		t.Errorf("the pod's security context is %+v", pod.SecurityContext)
	}
	var volumes []string
	for _, v := range pod.Volumes {
		volumes = append(volumes, v.Name)
	}
	for _, v := range set.Spec.VolumeClaimTemplates {
		volumes = append(volumes, v.Metadata.Name)
	}
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		s := c.SecurityContext
		if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem || !slices.Contains(s.Capabilities.Drop, "ALL") {
			t.Errorf("%s: its security context is %+v", c.Name, s)
		}
		for _, m := range c.VolumeMounts {
			if !slices.Contains(volumes, m.Name) {
				t.Errorf("%s mounts %s, which is not there", c.Name, m.Name)
			}
		}
	}
}
