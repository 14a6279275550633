package definition_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/tool/guardrail"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

func TestDefinitionIsFrontMatterAndInstructions(t *testing.T) {
	got, err := parse([]byte("\uFEFF---\r\nname: reviewer\r\ndescription: Reviews.\r\ntools: [Read]\r\nskills: [git]\r\n---\r\n\r\nYou review.\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := definition.Definition{
		Name: "reviewer", Description: "Reviews.", Tools: []string{"Read"}, Skills: []string{"git"},
		Accepts: []string{"task", "reviewer"}, MaxTurns: 32, Instructions: "You review.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("definition (-want +got):\n%s", diff)
	}
}

// known is what the definitions of these tests may name.
func known() definition.Loader {
	return definition.Loader{
		Tools:  []string{"Read", "Write", "Edit", "Bash", "Glob", "WebFetch", "WebSearch", "replicate_agent", "activate_skill"},
		Skills: []string{"release-notes", "survey"}, Servers: []string{"files", "x"},
		Model: func(spec string) error {
			if strings.HasPrefix(spec, "openai:") || strings.HasPrefix(spec, "anthropic:") {
				return nil
			}
			return errors.New("names no model")
		},
	}
}

// matter is front matter with a name and a description, so that the first given line is line 4.
func matter(lines ...string) []byte {
	return []byte("---\nname: a\ndescription: d\n" + strings.Join(lines, "\n") + "\n---\ntext\n")
}

func TestDefinitionKeysAreRead(t *testing.T) {
	rule := func(at string, texts ...string) (all []permission.RuleText) {
		for _, text := range texts {
			all = append(all, permission.RuleText{Rule: text, At: at})
		}
		return all
	}
	for name, test := range map[string]struct {
		text string
		want func(*definition.Definition)
	}{
		"nothing more":      {"", func(*definition.Definition) {}},
		"a number for text": {"model: ", func(*definition.Definition) {}},
		"model":             {"model: openai:x", func(d *definition.Definition) { d.Model = "openai:x" }},
		"models":            {"model: [openai:x, anthropic:y]", func(d *definition.Definition) { d.Model = "openai:x,anthropic:y" }},
		"accepts":           {"accepts: [work, a.b]", func(d *definition.Definition) { d.Accepts = []string{"work", "a.b", "a"} }},
		"keep":              {"keep: true", func(d *definition.Definition) { d.Keep = true }},
		"accepts its name":  {"accepts: [a]", func(d *definition.Definition) { d.Accepts = []string{"a"} }},
		"tools": {"tools: [Read, 'preset:web', mcp__files__*, mcp__x__y, mcp__*]", func(d *definition.Definition) {
			d.Tools = []string{"Read", "preset:web", "mcp__files__*", "mcp__x__y", "mcp__*"}
		}},
		"tools as the spec":  {"tools: [read, write, BASH]", func(d *definition.Definition) { d.Tools = []string{"Read", "Write", "Bash"} }},
		"all tools":          {"tools: '*'", func(*definition.Definition) {}},
		"no tools":           {"tools: []", func(d *definition.Definition) { d.Tools = []string{} }},
		"tools unsaid":       {"tools:", func(*definition.Definition) {}},
		"skills":             {"skills:\n- survey\n- release-notes", func(d *definition.Definition) { d.Skills = []string{"survey", "release-notes"} }},
		"turns":              {"max_turns: 7", func(d *definition.Definition) { d.MaxTurns = 7 }},
		"usual turns":        {"max_turns: 0", func(*definition.Definition) {}},
		"effort":             {"effort: high", func(d *definition.Definition) { d.Effort = "high" }},
		"temperature":        {"temperature: 0.5", func(d *definition.Definition) { d.Temperature = new(0.5) }},
		"no chance":          {"temperature: 0", func(d *definition.Definition) { d.Temperature = new(0.0) }},
		"thinking":           {"thinking: true", func(d *definition.Definition) { d.Thinking = 4096 }},
		"no thinking":        {"thinking: false", func(d *definition.Definition) { d.Thinking = -1 }},
		"so much thinking":   {"thinking: 2000", func(d *definition.Definition) { d.Thinking = 2000 }},
		"thinking, the form": {"thinking: {type: enabled, budget_tokens: 2000}", func(d *definition.Definition) { d.Thinking = 2000 }},
		"thinking, usual":    {"thinking: {type: enabled}", func(d *definition.Definition) { d.Thinking = 4096 }},
		"thinking, disabled": {"thinking: {type: disabled}", func(d *definition.Definition) { d.Thinking = -1 }},
		"budget": {"budget: {agents: 2, depth: 1, spawns_per_minute: 3, wall: 5m, model_calls: 4, tokens: 5, cost: 0.5}", func(d *definition.Definition) {
			d.Budget = budget.Limits{Agents: 2, Depth: 1, SpawnsPerMinute: 3, Wall: 5 * time.Minute, ModelCalls: 4, Tokens: 5, Cost: 0.5}
		}},
		"permissions": {"permissions:\n  preset: read_only\n  allow: [Read]\n  deny: [Write]\n  final_deny: [Bash]\n  override: [{rule: 'Bash(git log:*)', match: [git log -1]}]\n  default: ask", func(d *definition.Definition) {
			d.Permissions = permission.Config{Preset: "read_only", Allow: rule("6:11", "Read"), Deny: rule("7:10", "Write"),
				FinalDeny: rule("8:16", "Bash"), Default: "ask",
				Override: []permission.RuleText{{Rule: "Bash(git log:*)", Match: []string{"git log -1"}, At: "9:14"}}}
		}},
		"guardrail by name": {"guardrail: readOnly", func(d *definition.Definition) { d.Guardrail.Preset = "readOnly" }},
		"guardrail": {"guardrail: {allow: [Read], ask: [Write], deny: [Bash], final_deny: [Edit], override: ['Bash(ls)'], preset: standard, default: deny}", func(d *definition.Definition) {
			d.Guardrail = guardrail.Config{Preset: "standard", Default: "deny", Allow: rule("4:21", "Read"), Ask: rule("4:34", "Write"),
				Deny: rule("4:49", "Bash"), FinalDeny: rule("4:69", "Edit"), Override: rule("4:87", "Bash(ls)")}
		}},
		"sandbox by name": {"sandbox: restrictive", func(d *definition.Definition) { d.Sandbox.Preset = "restrictive" }},
		"sandbox": {"sandbox: {preset: standard, network: none, write: [], env: [A], sockets: [/s], subprocess: false, limits: {cpu: 30s, file_size: 5, open_files: 100, processes: 70, memory: 512 MiB}}", func(d *definition.Definition) {
			d.Sandbox = definition.Sandbox{Preset: "standard", Network: "none", Write: []string{}, Env: []string{"A"},
				Sockets: []string{"/s"}, NoSubprocess: true,
				Limits: sandbox.Limits{CPU: 30 * time.Second, FileSize: 5, OpenFiles: 100, Processes: 70, Memory: 512 << 20}}
		}},
		"an anchor": {"accepts: &x [work]\nskills: &y [survey]\ntools: []\nbudget: &b {agents: 2}", func(d *definition.Definition) {
			d.Accepts, d.Skills, d.Tools, d.Budget.Agents = []string{"work", "a"}, []string{"survey"}, []string{}, 2
		}},
		"a merged key":  {"sandbox: {limits: {<<: {cpu: 9s, memory: 5}, memory: 6}}", func(d *definition.Definition) { d.Sandbox.Limits = sandbox.Limits{CPU: 9 * time.Second, Memory: 6} }},
		"keys unsaid":   {"permissions:\nguardrail:\nsandbox:\nbudget:\nthinking:\nskills:\naccepts:\nmax_turns:", func(*definition.Definition) {}},
		"empty mapping": {"permissions: {}\nguardrail: {}\nsandbox: {}\nbudget: {}\nthinking: {}", func(d *definition.Definition) { d.Thinking = 4096 }},
	} {
		t.Run(name, func(t *testing.T) {
			got, problems := known().Parse(matter(test.text))
			want := definition.Definition{Name: "a", Description: "d", Accepts: []string{"task", "a"}, MaxTurns: 32, Instructions: "text"}
			test.want(&want)
			if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
				t.Errorf("problems: %v; definition (-want +got):\n%s", problems, diff)
			}
			if err := validate(t, matter(test.text)); err != nil && !keysWithoutValue[name] {
				t.Errorf("the schema refuses it: %v", err)
			}
		})
	}
}

// TestDefinitionsOfClaudeCodeAreRead has what people write for Claude Code. What a definition of it restricts stays restricted.
func TestDefinitionsOfClaudeCodeAreRead(t *testing.T) {
	deny := func(at string, names ...string) (all []permission.RuleText) {
		for _, name := range names {
			all = append(all, permission.RuleText{Rule: name, At: at})
		}
		return all
	}
	for name, test := range map[string]struct {
		text, warning string
		want          func(*definition.Definition)
	}{
		"model":            {"model: opus", `line 4: model "opus" is a name of another program; the node's model is used`, func(*definition.Definition) {}},
		"model, inherited": {"model: inherit", "", func(*definition.Definition) {}},
		"model, Bedrock":   {"model: us.anthropic.claude-x-v1:0", "the node's model is used", func(*definition.Definition) {}},
		"one of models":    {"model: [sonnet, openai:x]", `model "sonnet"`, func(d *definition.Definition) { d.Model = "openai:x" }},
		"tools as text":    {"tools: Read, Bash write", "", func(d *definition.Definition) { d.Tools = []string{"Read", "Bash", "Write"} }},
		"one tool":         {"tools: Read", "", func(d *definition.Definition) { d.Tools = []string{"Read"} }},
		"no tool":          {"tools: ''", "", func(d *definition.Definition) { d.Tools = []string{} }},
		"tools elsewhere":  {"tools: Read, Agent, NotebookEdit", `there is no tool "NotebookEdit" here`, func(d *definition.Definition) { d.Tools = []string{"Read", "replicate_agent", "NotebookEdit"} }},
		"a rule":           {"tools: Read, Bash(git:*)", `"Bash(git:*)" is a rule`, func(d *definition.Definition) { d.Tools = []string{"Read", "Bash(git:*)"} }},
		"tools like ours":  {"tools: Read, ToolSearch", `there is no tool "ToolSearch" here`, func(d *definition.Definition) { d.Tools = []string{"Read", "ToolSearch"} }},
		"tools renamed":    {"tools: Skill, LS, list, web_fetch", "", func(d *definition.Definition) { d.Tools = []string{"activate_skill", "Glob", "Glob", "WebFetch"} }},
		"a server":         {"tools: mcp__files", "", func(d *definition.Definition) { d.Tools = []string{"mcp__files__*"} }},
		"no such server":   {"tools: mcp__pictures__draw", `no MCP server "pictures" here`, func(d *definition.Definition) { d.Tools = []string{"mcp__pictures__draw"} }},
		"denied tools": {"disallowedTools: Bash, task, KillShell, mcp__x, Agent(reviewer)", "there is no tool KillShell here", func(d *definition.Definition) {
			d.Permissions.Deny = deny("4:1", "Bash", "replicate_agent", "mcp__x__*", "replicate_agent(reviewer)")
		}},
		"denied sub-agent": {"disallowedTools: [Task, 'Bash(rm:*)']", "", func(d *definition.Definition) { d.Permissions.Deny = deny("4:1", "replicate_agent", "Bash(rm:*)") }},
		"denied skills": {"disallowedTools: Skill, Skill(a), ToolSearch", "there is no tool ToolSearch here", func(d *definition.Definition) {
			d.Permissions.Deny = deny("4:1", "activate_skill", "activate_skill(a)")
		}},
		"mode plan":      {"permissionMode: plan", "", func(d *definition.Definition) { d.Permissions.Preset = "read_only" }},
		"mode bypass":    {"permissionMode: bypassPermissions", "cannot give more", func(*definition.Definition) {}},
		"turns":          {"maxTurns: 7", "", func(d *definition.Definition) { d.MaxTurns = 7 }},
		"skills as text": {"skills: survey, release-notes", "", func(d *definition.Definition) { d.Skills = []string{"survey", "release-notes"} }},
		"color":          {"color: blue", `line 4: unknown key "color" is ignored`, func(*definition.Definition) {}},
		"hooks":          {"hooks: {Stop: []}", `unknown key "hooks"`, func(*definition.Definition) {}},
		"another mode":   {"mode: subagent", `unknown key "mode"`, func(*definition.Definition) {}},
	} {
		t.Run(name, func(t *testing.T) {
			got, problems := known().Parse(matter(test.text))
			warnings := fmt.Sprint(got.Warnings)
			if len(got.Warnings) == 1 {
				warnings = got.Warnings[0].Error()
			}
			if len(problems) > 0 || !strings.Contains(warnings, test.warning) || test.warning == "" && got.Warnings != nil {
				t.Errorf("problems: %v, warnings: %s, want %q", problems, warnings, test.warning)
			}
			if err := validate(t, matter(test.text)); err != nil && name != "another mode" {
				t.Errorf("the schema refuses it: %v", err)
			}
			want := definition.Definition{Name: "a", Description: "d", Accepts: []string{"task", "a"}, MaxTurns: 32, Instructions: "text",
				Warnings: got.Warnings}
			test.want(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("definition (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDescriptionWithoutQuotesKeepsTheLines(t *testing.T) {
	const head = "---\nname: a\ndescription: It's for x. Examples: <y>\n  more: it\ncolor: red\n"
	d, problems := known().Parse([]byte(head + "---\n"))
	if len(problems) > 0 || d.Description != "It's for x. Examples: <y> more: it" || len(d.Warnings) != 2 || d.Warnings[1].Line != 5 {
		t.Errorf("got %q, %v, %v", d.Description, problems, d.Warnings)
	}
	if _, problems := known().Parse([]byte(head + "modle: x\n---\n")); len(problems) != 1 || problems[0].Line != 6 {
		t.Errorf("problems: %v, want one on line 6", problems)
	}
}

// TestDescriptionLosesNothing has descriptions that YAML reads otherwise than their author, or not at all.
func TestDescriptionLosesNothing(t *testing.T) {
	for text, want := range map[string]string{
		"Fix it #12 now":             "Fix it",
		"Fix it\n  and #12 now":      "Fix it and",
		"Use C: # it fits":           "Use C: # it fits",
		`"Review" code`:              `"Review" code`,
		"'Plan': first":              "'Plan': first",
		"[Beta] use it: now":         "[Beta] use it: now",
		"*bold* text":                "*bold* text",
		"x: y\n\n  It's: z # a":      "x: y It's: z # a",
		"one line\nanother, of <it>": "one line another, of <it>",
	} {
		d, problems := known().Parse([]byte("---\nname: a\ndescription: " + text + "\nmax_turns: 3\n---\n"))
		if len(problems) > 0 || d.Description != want || d.MaxTurns != 3 || len(d.Warnings) != 1 {
			t.Errorf("%s: got %q, %v, %v", text, d.Description, problems, d.Warnings)
		}
	}
	if d, problems := known().Parse([]byte("---\nname: a\ndescription: \"a # b\" # c\n---\n")); len(problems)+len(d.Warnings) > 0 || d.Description != "a # b" {
		t.Errorf("got %q, %v, %v", d.Description, problems, d.Warnings)
	}
}

func TestFileGivesTheNameThatFrontMatterSpellsOtherwise(t *testing.T) {
	file := filepath.Join(t.TempDir(), "net-4.8_expert.md")
	for name, want := range map[string]string{"Net Expert": "net-4.8_expert", "other": "other", "net-4.8_expert": "net-4.8_expert"} {
		if err := os.WriteFile(file, []byte("---\nname: "+name+"\n---\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		d, problems := known().Read(file)
		if len(problems) > 0 || d.Name != want || (len(d.Warnings) > 0) != (name != "net-4.8_expert") {
			t.Errorf("%s: got %q, %v, %v", name, d.Name, problems, d.Warnings)
		}
	}
}

func TestDefinitionThatIsWrongSaysWhatAndWhere(t *testing.T) {
	for name, test := range map[string]struct {
		text []byte
		want string
	}{
		"no front matter":    {[]byte("You review."), "line 1: the first line must be ---"},
		"not ended":          {[]byte("---\nname: a\n"), "line 1: the front matter has no closing ---"},
		"nothing":            {[]byte("---\n---\n"), `line 1: name ""`},
		"no YAML":            {[]byte("---\nname: a\nmodel: 'd\n---\n"), "line "},
		"a quote at the end": {[]byte("---\nname: \"a\n---\n"), "line 2: found unexpected end of stream"},
		"a list":             {[]byte("---\n- name\n---\n"), "line 2: front matter is keys"},
		"two documents":      {[]byte("---\nname: a\ndescription: d\n--- {x: y}\n---\n"), "line 4: a second YAML document"},
		"no name":            {[]byte("---\ndescription: d\n---\n"), `line 1: name ""`},
		"a path for a name":  {[]byte("---\ndescription: d\nname: ../a\n---\n"), "line 3: name \"../a\": want up to 64 letters and digits, with"},
		"too large":          {append(matter(), bytes.Repeat([]byte("x"), 300<<10)...), "256 KiB"},

		"unknown key":            {matter("modle: x"), `line 4: unknown key "modle"; did you mean "model"?`},
		"an unlike key":          {matter("mcp_tools_xxxxxxxxx: x"), `line 4: unknown key "mcp_tools_xxxxxxxxx"; there are accepts, acp, budget, description,`},
		"a key twice":            {matter("model: openai:x", "model: openai:y"), "line 5: model is there twice; it is on line 4 already"},
		"a name that is a list":  {[]byte("---\nname: [a]\ndescription: d\n---\n"), "line 2: name is a text"},
		"a model":                {matter("model: opanai:x"), `line 4: model names no model`},
		"a key of skills":        {matter("allowed-tools: Read"), `line 4: unknown key "allowed-tools"`},
		"one of several models":  {matter("model:", "- openai:x", "- opneai:y"), "line 6: model names no model"},
		"keep, no boolean":       {matter("keep: yes please"), "line 4: keep is true or false"},
		"accepts, no list":       {matter("accepts: task"), "line 4: accepts is a list"},
		"accepts, odd":           {matter("accepts:", "- task", "- a b"), `line 6: accepts "a b"`},
		"accepts, twice":         {matter("accepts: [x, x]"), `line 4: accepts "x" is there twice`},
		"a tool":                 {matter("tools:", "- Read", "- Wriet"), `line 6: tools: there is no tool "Wriet"; did you mean "Write"?`},
		"tools, no list":         {matter("tools: {Read: true}"), `line 4: tools is a list, such as [Read, "preset:web"], or "*" for all`},
		"a bare star":            {matter("tools: *"), `line 4: YAML reads a * that stands alone as something else; write it in quotes: "*"`},
		"a star among others":    {matter("tools: [Read, '*']"), `line 4: tools: "*" stands alone`},
		"a preset":               {matter("tools: ['preset:wep']"), `line 4: tools: there is no preset "wep"; did you mean "web"?`},
		"a tool for a preset":    {matter("tools: [read_only]"), `line 4: tools: there is no tool "read_only"; did you mean "preset:read_only"?`},
		"MCP without a tool":     {matter("tools: [mcp__]"), `line 4: tools: "mcp__" is no name of MCP tools; they are mcp__SERVER__TOOL`},
		"MCP with a star inside": {matter("tools: [mcp__*__x]"), "line 4: tools: \"mcp__*__x\" is no name of MCP tools"},
		"an MCP server":          {matter("tools: [mcp__flies__*]"), `line 4: tools: there is no MCP server "flies"; did you mean "files"?`},
		"a skill":                {matter("skills: [survay]"), `line 4: Agent 'a' references unknown skill: survay; did you mean "survey"?`},
		"negative turns":         {matter("max_turns: -1"), "line 4: max_turns -1 is negative"},
		"turns, a word":          {matter("max_turns: many"), "line 4: max_turns is a whole number"},
		"effort, a word":         {matter("effort: hig"), `line 4: effort "hig": it is one of low, medium, high; did you mean "high"?`},
		"temperature, too high":  {matter("temperature: 2.1"), "line 4: temperature is a number from 0 to 2"},
		"temperature, too low":   {matter("temperature: -1"), "line 4: temperature is"},
		"temperature, a word":    {matter("temperature: low"), "line 4: temperature is"},
		"temperature, a list":    {matter("temperature: [1]"), "line 4: temperature is"},
		"thinking, a word":       {matter("thinking: much"), "line 4: thinking is true, false, or how many tokens"},
		"thinking, too much":     {matter("thinking: 100001"), "line 4: thinking is"},
		"thinking, a key":        {matter("thinking: {budget: 5}"), `line 4: unknown key "budget" in thinking; did you mean`},
		"thinking, a type":       {matter("thinking: {type: enable}"), `line 4: thinking.type "enable": it is one of enabled, disabled; did you mean "enabled"?`},

		"a denied tool":        {matter("disallowedTools: Bsh"), `line 4: disallowedTools: there is no tool "Bsh"; did you mean "Bash"?`},
		"a denied list":        {matter("disallowedTools: ['Bash(rm, mv)']"), `line 4: disallowedTools: deny rule "Bash(rm, mv)", column 1: it probably means something else`},
		"bad rule":             {matter("permissions:", "  deny:", "  - Read", "  - 'Bash(rm'"), `line 7: deny rule "Bash(rm", column 8`},
		"a rule in long":       {matter("permissions:", "  allow:", "  - rule: 'Bash(git log:*)'", "    mach: [x]"), `line 7: permissions.allow: a rule has no key "mach"`},
		"an example":           {matter("permissions: {allow: [{rule: 'Bash(git log:*)', match: [git push]}]}"), `line 4: allow rule "Bash(git log:*)": it must match`},
		"rules, no list":       {matter("permissions: {deny: Bash}"), "line 4: permissions.deny is a list of rules"},
		"a permission preset":  {matter("permissions: {preset: read_onli}"), `did you mean "read_only"?`},
		"a default":            {matter("permissions: {default: alow}"), `line 4: permissions.default "alow": it is one of allow, ask, deny; did you mean "allow"?`},
		"a permission key":     {matter("permissions:", "  alow: [Read]"), `line 5: unknown key "alow" in permissions; did you mean "allow"?`},
		"permissions, a word":  {matter("permissions: read_only"), "line 4: permissions is keys with values"},
		"a guardrail by name":  {matter("guardrail: readonli"), `line 4: guardrail: there is no permission preset "readonli"`},
		"a guardrail rule":     {matter("guardrail:", "  ask: ['Bash(']"), `line 5: ask rule "Bash("`},
		"a guardrail example":  {matter("guardrail: {ask: [{rule: 'Bash(git push:*)', match: [git log]}]}"), `line 4: ask rule "Bash(git push:*)": it must match`},
		"a sandbox that is no": {matter("sandbox: off"), "line 4: sandbox: a definition cannot switch the sandbox off"},
		"a sandbox preset":     {matter("sandbox: {preset: restictive}"), `did you mean "restrictive"?`},
		"the node's sandbox":   {matter("sandbox:", "  preset: standard", "  show: [~/.ssh]"), "line 6: sandbox.show stands in the sandbox of the node's configuration alone"},
		"a network":            {matter("sandbox: {network: some}"), `line 4: sandbox.network "some": it is one of none, local, full`},
		"a home directory":     {matter("sandbox: {write: [~/x]}"), `line 4: sandbox.write "~/x"`},
		"a limit":              {matter("sandbox: {limits: {memroy: 1}}"), `line 4: unknown key "memroy" in sandbox.limits; did you mean "memory"?`},
		"a size":               {matter("sandbox: {limits: {memory: 1 elephant}}"), "line 4: sandbox.limits.memory is how many bytes, such as 512MiB"},
		"too large a size":     {matter("sandbox: {limits: {memory: 99999999999999TiB}}"), "is too large"},
		"a time":               {matter("sandbox: {limits: {cpu: 5}}"), "line 4: sandbox.limits.cpu is how long"},
		"subprocess":           {matter("sandbox: {subprocess: 3}"), "line 4: sandbox.subprocess is true or false"},
		"no budget":            {matter("budget: {agents: 0}"), "line 4: budget.agents has to be above 0"},
		"a negative budget":    {matter("budget: {wall: -5m}"), "line 4: budget.wall has to be above 0"},
		"not a number":         {matter("budget: {cost: .nan}"), "line 4: budget.cost has to be above 0"},
		"a budget's time":      {matter("budget: {wall: 5}"), "line 4: budget.wall is how long"},
		"a budget's number":    {matter("budget: {agents: some}"), "line 4: budget.agents is a number"},
		"a budget's key":       {matter("budget: {agnets: 1}"), `line 4: unknown key "agnets" in budget; did you mean "agents"?`},
	} {
		t.Run(name, func(t *testing.T) {
			if accepted := validate(t, test.text) == nil; accepted != leftToParse[name] {
				t.Errorf("the schema accepts it: %v, want %v", accepted, leftToParse[name])
			}
			_, problems := known().Parse(test.text)
			for i, p := range problems {
				if p.Line < 1 || p.Line > 1+bytes.Count(test.text, []byte("\n")) {
					t.Errorf("a problem on no line of the text: %v", problems[i].Error())
				}
				if strings.Contains(problems[i].Error(), test.want) {
					return
				}
			}
			t.Errorf("problems: %v, want one with %q", problems, test.want)
		})
	}
}

func TestEverythingThatIsWrongIsSaidInTheOrderOfTheLines(t *testing.T) {
	_, problems := known().Parse([]byte("---\nname: A B\nmax_turns: x\nmodle: y\ntools: [Raed, Wirte]\n---\n"))
	var got []int
	for _, p := range problems {
		got = append(got, p.Line)
	}
	if diff := cmp.Diff([]int{2, 3, 4, 5, 5}, got); diff != "" {
		t.Errorf("the lines of %v (-want +got):\n%s", problems, diff)
	}
}

func TestOfWhatIsNotKnownEveryNameIsTaken(t *testing.T) {
	text := matter("tools: [Raed, mine]", "skills: [any]", "model: x")
	if _, err := parse(text); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestOneBadDefinitionDoesNotHideTheOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]*") // no pattern
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"good.md":   "---\nname: good\ndescription: d\npermissions: {deny: [Bash]}\n---\n",
		"other.md":  "---\ndescription: d\nname: good\n---\n",
		"bad.md":    "no front matter",
		"notes.txt": "no definition at all",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "x.md"), 0o700); err != nil {
		t.Fatal(err)
	}
	all, err := definition.Loader{}.Load(dir)
	if len(all) != 1 || all[0].Name != "good" || all[0].File != filepath.Join(dir, "good.md") ||
		all[0].Permissions.Deny[0].At != all[0].File+":4:22" {
		t.Errorf("definitions = %+v, want only good, which knows where it stands", all)
	}
	var got []string
	for _, p := range definition.Problems(err) {
		got = append(got, strings.ReplaceAll(p.Error(), dir+string(filepath.Separator), ""))
	}
	want := []string{"bad.md:1: the first line must be --- and start the front matter", "other.md:1: another definition is called good, too: good.md", "x.md:1: not a file of up to 256 KiB"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func FuzzParseDefinition(f *testing.F) {
	f.Add([]byte("---\nname: a\ndescription: d\n---\ntext"))
	f.Add([]byte("---\n---\n"))
	f.Add([]byte("---\nname: &a [*a]\n---\n"))
	f.Add([]byte("---\ntools: *\n--- \n<<: [*x]\n---\n"))
	f.Add(matter("x: &x {<<: *x}", "permissions: &p {<<: *p, deny: [{rule: *p}]}", "tools: [a, *p]"))
	f.Add(matter("sandbox: {write: [a], limits: {memory: 5GiB, cpu: 5s}}", "budget: {wall: 5m, cost: .inf}", "thinking: {budget_tokens: 0x10}", "guardrail: {ask: [Write]}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, problems := known().Parse(text)
		for _, p := range problems {
			if p.Line < 1 || p.Line > 1+bytes.Count(text, []byte("\n")) || p.Reason == "" {
				t.Errorf("a problem on no line of the text: %+v", p)
			}
		}
		if len(problems) > 0 {
			return
		}
		if d.Name == "" || d.Description == "" || len(d.Accepts) == 0 || d.MaxTurns <= 0 {
			t.Errorf("accepted an unusable definition: %+v", d)
		}
		if _, err := d.Permissions.Policy(); err != nil {
			t.Errorf("accepted permissions that cannot be used: %v", err)
		}
		if _, err := d.Guardrail.Guardrail(); err != nil {
			t.Errorf("accepted a guardrail that cannot be used: %v", err)
		}
	})
}

// TestDefinitionNeedsNoDescription reads the examples of the designs, and takes a description from their text.
func TestDefinitionNeedsNoDescription(t *testing.T) {
	for name, want := range map[string]string{
		"my-agent": "You are an agent for small jobs.", "with-skill": "You are an agent that knows its domain.", "technical-analyst": "You analyse tender materials v1.2 and say what they ask for!", "bare": "bare",
	} {
		d, problems := definition.Loader{Tools: []string{"Read", "Write", "Grep"},
			Skills: []string{"domain-expertise", "danish-tender-guidelines"}}.Read(filepath.Join("testdata", "examples", name+".md"))
		if len(problems) > 0 || d.Description != want {
			t.Errorf("%s: got %q, %v", name, d.Description, problems)
		}
	}
}

// parse is Parse of the zero Loader, with its problems as an error.
func parse(text []byte) (definition.Definition, error) {
	d, problems := definition.Loader{}.Parse(text)
	if len(problems) > 0 {
		return d, &problems[0]
	}
	return d, nil
}
