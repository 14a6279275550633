package skillset

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slices"
	"symbio/agent/tool/mcp"
	"symbio/skills"
	"symbio/skills/format"
)

type onePrompt struct{ prompts }

func (onePrompt) Prompts(context.Context) ([]mcp.Prompt, error) {
	return []mcp.Prompt{{Command: "mcp__a__b", Server: "a", Name: "b"}}, errors.New("c does not answer")
}

func TestSkillsForPeopleAreCommands(t *testing.T) {
	one := func(name string, exposure skills.Exposure, modelOnly bool, hint string) skills.Skill {
		return skills.Skill{Exposure: exposure, Manifest: format.Manifest{Name: name, Description: "does\n" + name, ModelOnly: modelOnly, Compat: format.Compat{ArgumentHint: hint}}}
	}
	got := commands(skills.Catalog{Skills: []skills.Skill{
		one("a", skills.On, false, "[file]"), one("a", skills.On, false, ""), one("off", skills.Off, false, ""), one("model", skills.On, true, ""),
		one("mine", skills.PeopleOnly, false, ""), one("two words", skills.On, false, ""), one("a/b", skills.On, false, ""), one("x\u202e", skills.On, false, ""),
	}})
	want := []mcp.Prompt{{Command: "a", Name: "a", Description: "does a", Arguments: []mcp.Argument{{Name: "[file]"}}}, {Command: "mine", Name: "mine", Description: "does mine"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	reply, err := NewService(new(Skills), onePrompt{}).Prompts(t.Context(), nil)
	if err != nil || len(reply.GetPrompts()) != 1 || !slices.Equal(reply.GetNotes(), []string{"c does not answer"}) {
		t.Errorf("without skills: %v %v", reply, err)
	}
}
