package agent

import (
	_ "embed"
	"slices"

	"symbio/agent/tool"
	"symbio/security/permission"
)

//go:embed plan.md
var planText string

// onlyReads is tool.SetConfig.OnlyReads: in the mode plan it returns why other calls are denied.
func (s *settings) onlyReads() string {
	if s.currentMode() == ModePlan {
		return "The mode is plan: only tools that read may run. Make the plan and answer with it; a person then changes the mode."
	}
	return ""
}

// promptText returns the text of the system prompt about the mode plan; "" in other modes.
func (s *settings) promptText() string {
	if s.currentMode() == ModePlan {
		return planText
	}
	return ""
}

// editsBy is the Decision.By of an answer that the mode edits gives.
const editsBy = "the person, in advance: mode edits"

// editsAnswer answers a decision as the person did who chose the mode edits: yes to a Write, Edit or
// MultiEdit of a file in the working directory. It returns false where the person has to be asked.
//
// The answer is what rules for these tools below the working directory would decide, so denials,
// guardrails, protected files, places with keys and links out of the directory count as they do for a
// rule. Those rules are not granted: the verdict stays a question with an answer. Nor are they put for
// the agent's parents or the requesters of its task, because the person answered for the conversation.
func (a *approver) editsAnswer(d tool.Decision) (tool.Answer, bool) {
	if a.settings.currentMode() != ModeEdits || !slices.Contains(editTools, d.Tool) || len(a.permissions.onBehalfOf()) > 0 ||
		d.Verdict.Stage != permission.StageDefault {
		return tool.Answer{}, false
	}
	rule, err := permission.ParseRule(d.Tool + "(./*)")
	if err != nil {
		return tool.Answer{}, false
	}
	all := []map[string]any{d.Args}
	if files, several := d.Args[tool.FilesArg].([]string); several {
		for _, file := range files {
			all = append(all, map[string]any{"file_path": file})
		}
	}
	for _, args := range all {
		call := permission.Call{Tool: d.Tool, Args: args, Dir: a.permissions.dir, Within: d.Within}
		if a.permissions.chain(permission.Grant{Rule: rule, Source: editsBy}).Judge(call).Action != permission.Allow {
			return tool.Answer{}, false
		}
	}
	return tool.Answer{Allow: true, By: editsBy, Advance: true}, true
}

// editTools are the tools that the mode edits is about.
var editTools = []string{"Write", "Edit", "MultiEdit"}
