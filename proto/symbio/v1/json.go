package symbiov1

import (
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
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

// MarshalJSON returns the reply for --json.
func (r *SteerReply) MarshalJSON() ([]byte, error) { return toJSON(r) }

// MarshalJSON returns the skill for --json.
func (s *Skill) MarshalJSON() ([]byte, error) { return toJSON(s) }

// MarshalJSON returns the problem for --json.
func (p *SkillProblem) MarshalJSON() ([]byte, error) { return toJSON(p) }

// MarshalJSON returns the reply for --json.
func (r *SkillPromptReply) MarshalJSON() ([]byte, error) { return toJSON(r) }
