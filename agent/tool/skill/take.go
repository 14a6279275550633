package skill

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"

	_ "embed"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/skills"
)

//go:embed activate_skill.md
var activateText string

//go:embed skill_load.md
var loadText string

type activateArgs struct {
	SkillName string `json:"skillName" jsonschema:"the name of the skill, as in the list of skills; its path where several have the name"`
	Arguments string `json:"arguments,omitempty" jsonschema:"text for the places in the instructions that name arguments, such as $ARGUMENTS or $1"`
	Force     bool   `json:"force,omitempty" jsonschema:"true to have instructions repeated that you were given already"`
}

type loadArgs struct {
	Name      string `json:"name,omitempty" jsonschema:"the name of the skill"`
	Path      string `json:"path,omitempty" jsonschema:"the path of its SKILL.md, as in the list of skills or in a result of skill_search; counts before the name"`
	Arguments string `json:"arguments,omitempty" jsonschema:"text for the places in the instructions that name arguments, such as $ARGUMENTS or $1"`
	Force     bool   `json:"force,omitempty" jsonschema:"true to have instructions repeated that you were given already"`
}

// never is the function of an inner tool, which is replaced in Decode before it can be called.
func never[A any](context.Context, A) tool.Result { return tool.Result{IsError: true} }

var (
	activateKind = tool.NewKind[activateArgs](tool.Spec{Name: Activate, Description: activateText, Alone: true})
	loadKind     = tool.NewKind[loadArgs](tool.Spec{Name: Load, Description: loadText, Alone: true})
)

// activationTool is activate_skill or skill_load. It uses the schema and the argument decoding of
// an inner tool and resolves the skill before the guard is asked.
type activationTool struct {
	tool.Tool
	cfg  Config
	name string // of the argument that names the skill

	mu   sync.Mutex
	of   *skills.Snapshot // what spec was made of; guarded by mu
	spec llm.ToolSpec     // guarded by mu
}

func newActivationTool(cfg Config, inner tool.Tool, name string) *activationTool {
	return &activationTool{Tool: inner, cfg: cfg, name: name}
}

func (t *activationTool) Offered() bool { return t.cfg.offered() }

// Spec lists the names of the skills in the schema, if they are few enough. It caches the result
// for as long as the catalog stays the same, because it is called in every turn.
func (t *activationTool) Spec() llm.ToolSpec {
	now := t.cfg.Registry.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of != now {
		t.of, t.spec = now, t.Tool.Spec()
		if names := t.names(now.Catalog); len(names) > 0 {
			t.spec.Schema = withEnum(t.spec.Schema, t.name, names)
		}
	}
	return t.spec
}

// maxEnumNames limits the names in the schema. With more skills there is no list at all, because an
// incomplete list would forbid the skills that are missing.
const maxEnumNames = 200

// names returns the skills' names, and for ambiguous names their paths; nil if there are too many.
func (t *activationTool) names(c skills.Catalog) []string {
	count := map[string]int{}
	var shown []skills.Skill
	for _, s := range c.Skills {
		if t.cfg.shows(s) {
			shown = append(shown, s)
		}
		if !s.Superseded {
			count[s.Name]++
		}
	}
	if len(shown) > maxEnumNames {
		return nil
	}
	var names []string
	for _, s := range shown {
		if count[s.Name] > 1 && t.cfg.Shown.Duplicates != skills.DuplicatesPrecedence {
			if t.name == "skillName" { // skill_load has an argument for paths
				names = append(names, s.Path)
			}
			continue
		}
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// withEnum returns schema with the allowed values of an argument. A schema that cannot be decoded
// is returned unchanged.
func withEnum(schema json.RawMessage, argument string, values []string) json.RawMessage {
	var whole map[string]any
	if json.Unmarshal(schema, &whole) != nil {
		return schema
	}
	properties, _ := whole["properties"].(map[string]any)
	property, ok := properties[argument].(map[string]any)
	if !ok {
		return schema
	}
	property["enum"] = values
	out, err := json.Marshal(whole)
	if err != nil {
		return schema
	}
	return out
}

// Decode resolves the skill that the model names. The guard sees its name, and its path where the
// name alone is ambiguous. An unknown skill is an error of the call after the guard has allowed it,
// so that a denied agent does not learn which skills exist.
func (t *activationTool) Decode(raw json.RawMessage) (tool.Invocation, error) {
	inv, err := t.Tool.Decode(raw)
	if err != nil {
		return inv, err
	}
	path, _ := inv.Args["path"].(string)
	name, _ := inv.Args[t.name].(string)
	force, _ := inv.Args["force"].(bool)
	arguments, _ := inv.Args["arguments"].(string)
	meant, err := t.cfg.Registry.Now().Resolve(cmp.Or(path, name), t.cfg.Shown.Duplicates)
	want := skills.ActivateRequest{Agent: t.cfg.Agent, Name: name, Path: path, Force: force, Arguments: arguments}
	if err == nil {
		inv.Args = map[string]any{t.name: meant.Name}
		if name != meant.Name || path != "" {
			inv.Args["path"] = meant.Path
		}
		if arguments != "" {
			inv.Args["arguments"] = arguments
		}
		want.Path = meant.Path
	}
	inv.Run = func(ctx context.Context) tool.Result {
		if err != nil {
			return tool.Result{Text: err.Error(), IsError: true}
		}
		if meant.Fork && t.cfg.Fork != nil {
			answer, err := t.cfg.Fork(ctx, want, meant)
			if err != nil {
				answer = err.Error()
			}
			return tool.Result{Text: answer, IsError: err != nil}
		}
		return t.activate(ctx, want)
	}
	return inv, nil
}

// activate activates the skill and returns its instructions.
func (t *activationTool) activate(ctx context.Context, want skills.ActivateRequest) tool.Result {
	want.Epoch = t.cfg.Epoch()
	a, err := t.cfg.Registry.Activate(ctx, want)
	if err != nil {
		return tool.Result{Text: err.Error(), IsError: true}
	}
	for _, one := range a.All() {
		t.cfg.OnActivated(one.Skill.Name)
	}
	if t.name == "name" {
		return tool.Result{Text: a.Context()}
	}
	return tool.Result{Text: a.Text()}
}
