package clusterinfo

import (
	"time"

	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// Rotation is where the replacement of the cluster's authority stands.
type Rotation struct {
	// Stage is trust (nodes learn to trust both authorities), certify (they get certificates of the new one) or done.
	Stage string    `json:"stage"`
	Since time.Time `json:"since"`
	// Successor names the new authority: the beginning of the hash of its certificate.
	Successor string `json:"successor"`
	// Waiting are the nodes that are not ready for the next stage; it begins without those that are off once their
	// certificates have ended. Of the stage done: those that were off, and get a certificate of the new authority until Until.
	Waiting []string `json:"waiting"`
	// Until is when nodes that were off can come back no more; zero before the stage done.
	Until time.Time `json:"until,omitzero"`
}

// addRotation adds the rotation that a node knows, unless it is over for long. live are the nodes of the running node.
func (s *Status) addRotation(r identity.Rotation, live []*symbiov1.Node) {
	if r.Standing() == nil {
		return
	}
	state := r.State()
	s.Rotation = &Rotation{
		Stage: map[identity.Stage]string{identity.StageTrust: "trust", identity.StageCertify: "certify", identity.StageDone: "done"}[state.Stage],
		Since: state.Since.UTC(), Successor: state.Successor, Waiting: []string{},
	}
	if state.Stage == identity.StageDone {
		s.Rotation.Until = state.Since.Add(identity.LateRenewal).UTC()
	}
	progress := map[string]string{}
	for _, n := range live {
		progress[n.GetId()] = n.GetRotation()
	}
	for _, n := range s.Nodes {
		p := progress[n.ID]
		if p != identity.ProgressCertified && (p != identity.ProgressTrusts || state.Stage != identity.StageTrust) {
			s.Rotation.Waiting = append(s.Rotation.Waiting, n.Name)
		}
	}
}
