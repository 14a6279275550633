package symbiov1

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// toJSON is a message as scripts see it: the names of the .proto file, and every field but those that are optional and not
// set.
func toJSON(m proto.Message) ([]byte, error) {
	return protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(m)
}

// MarshalJSON returns the member for --json.
func (m *LocatedMember) MarshalJSON() ([]byte, error) { return toJSON(m) }

// MarshalJSON returns the change for --json.
func (c *MemberChange) MarshalJSON() ([]byte, error) { return toJSON(c) }

// MarshalJSON returns the node for --json.
func (n *Node) MarshalJSON() ([]byte, error) { return toJSON(n) }

// MarshalJSON returns the rule for --json.
func (r *LastingRule) MarshalJSON() ([]byte, error) { return toJSON(r) }

// MarshalJSON returns the reply for --json.
func (r *ReloadReply) MarshalJSON() ([]byte, error) { return toJSON(r) }

// MarshalJSON returns the state for --json.
func (s *DrainState) MarshalJSON() ([]byte, error) { return toJSON(s) }

// MarshalJSON returns the reply for --json.
func (r *SteerReply) MarshalJSON() ([]byte, error) { return toJSON(r) }

// MarshalJSON returns the reply for --json.
func (r *InspectReply) MarshalJSON() ([]byte, error) { return toJSON(r) }

// MarshalJSON returns the skill for --json.
func (s *Skill) MarshalJSON() ([]byte, error) { return toJSON(s) }

// MarshalJSON returns the problem for --json.
func (p *SkillProblem) MarshalJSON() ([]byte, error) { return toJSON(p) }

// MarshalJSON returns the reply for --json.
func (r *SkillPromptReply) MarshalJSON() ([]byte, error) { return toJSON(r) }

// MarshalJSON returns the node for --json.
func (n *FleetNode) MarshalJSON() ([]byte, error) { return toJSON(n) }

// MarshalJSON returns the agent for --json.
func (a *FleetAgent) MarshalJSON() ([]byte, error) { return toJSON(a) }

// MarshalJSON returns the approval for --json: args are the JSON object that they hold, null when they are too long to be shown,
// and shown, whose parts the other fields have, is left out.
func (a *Approval) MarshalJSON() ([]byte, error) {
	out := &Approval{
		Id: a.GetId(), Agent: a.GetAgent(), Name: a.GetName(), For: a.GetFor(), Tool: a.GetTool(), Args: a.GetArgs(), Rule: a.GetRule(), Why: a.GetWhy(),
		Asked: cmp.Or(a.GetAsked(), &timestamppb.Timestamp{}), Deadline: cmp.Or(a.GetDeadline(), &timestamppb.Timestamp{}),
		Node: a.GetNode(), NodeName: a.GetNodeName(), Digest: a.GetDigest(), Rules: a.GetRules(), Offers: a.GetOffers(),
	}
	text, err := toJSON(out)
	if err != nil {
		return nil, err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil { // protojson adds spaces at random
		return nil, err
	}
	args := a.GetArgs()
	if len(args) == 0 {
		args = []byte("null")
	}
	// Within a string the quotes would be escaped: only the field itself looks like this.
	text = bytes.Replace(line.Bytes(), []byte(`"args":"`+base64.StdEncoding.EncodeToString(a.GetArgs())+`"`), append([]byte(`"args":`), args...), 1)
	return bytes.Replace(text, []byte(`"shown":"",`), nil, 1), nil
}
