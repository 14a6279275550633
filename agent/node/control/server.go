// Package control serves symbio.v1.Control, the gRPC service of the node's Unix
// socket, to the command line. It translates between messages and the parts of
// the node; it makes no decisions of its own. Access to the socket is the only
// check: every caller is the user that runs the node (package state).
package control

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/content"
	"symbio/agent/conversation"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/node/approvals"
	"symbio/agent/node/artifacts"
	"symbio/agent/node/fleet"
	"symbio/agent/node/rules"
	"symbio/agent/node/steering"
	"symbio/agent/placement"
	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/discovery"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/skills"
	"symbio/transport/grpcpeer"
)

// Config has the parts of the node that the command line uses. All fields are
// required unless their comment says otherwise.
type Config struct {
	// Name, Version, Listen and Workspace are reported by Status. Listen is the address that is
	// bound, with its port.
	Name, Version, Listen, Workspace string
	Started                          time.Time
	Identity                         *identity.Identity
	Community                        *community.Community
	Network                          *grpcpeer.Network
	Sources                          []discovery.Source
	// ModelHealth returns what the node learnt of models that do not do well.
	ModelHealth func() []*symbiov1.ModelHealth
	Events      *event.Stream
	Agents      *agent.Factory
	Rules       *rules.Rules
	Approvals   *approvals.Queue
	Steering    *steering.Controller
	Fleet       *fleet.Fleet
	Artifacts   *artifacts.Server
	// Limits is the budget of each agent that a person starts.
	Limits budget.Limits
	// Definition returns the definition of a name ("" = general), Model opens
	// the model of a name.
	Definition func(name string) (definition.Definition, error)
	Model      func(ctx context.Context, name string) (llm.Model, error)
	// Unattended asks a person about calls of agents without a terminal. nil =
	// those calls are denied.
	Unattended func(context.Context, agent.ApprovalRequest) tool.Answer
	// Skills returns the skills; with rescan it reads the disk first.
	// SkillPrompt returns the text that models get.
	Skills      func(ctx context.Context, rescan bool) (*symbiov1.SkillsReply, error)
	SkillPrompt func(ctx context.Context, form string, names []string) (*symbiov1.SkillPromptReply, error)
	// MCP has the prompts of the MCP servers and the skills for people.
	MCP MCP
	// Resume returns the order that goes on with a session. Its errors wrap
	// session.ErrNotFound if there is none.
	Resume func(ctx context.Context, session string) (agent.Order, error)
	// Reload reads the files that the command line writes, and with
	// configuration the rules of the configuration file, too.
	Reload func(configuration bool) (*symbiov1.ReloadReply, error)
	// RunTask runs a task and sends its events, the result last. Its error is one of a task that has not begun.
	RunTask func(context.Context, *symbiov1.RunTaskRequest, func(*symbiov1.RunTaskEvent) error) error
	// Loads asks the nodes that lend agents for their loads, for at most a second.
	Loads func(context.Context) map[community.MemberID]placement.Load
	// Dashboard opens the dashboard in the browser; see dashboard.Dashboard.Open.
	Dashboard func(context.Context, *symbiov1.DashboardRequest) (*symbiov1.DashboardReply, error)
	// NodeName returns the name of a node, or its id if the name is not known.
	NodeName func(community.NodeID) string
	// Users gets the commands that have work done, if the node ends with the last of them, as Status
	// reports; nil = it lives on.
	Users *Users
	// Health is served as grpc.health.v1.
	Health *health.Server
	// Logger gets panics of calls and failures to terminate an agent.
	Logger *slog.Logger
}

// maxReceived bounds a message of a caller in bytes: the pictures of a message to an agent, and room
// for its text.
const maxReceived = llm.MaxImageBytes + 4<<20

// NewServer returns the gRPC server of the control socket. The caller serves
// and stops it. A panic in a call becomes an error of that call. Reflection is
// on, so that grpcurl works on the socket.
func NewServer(cfg Config) *grpc.Server {
	s := grpc.NewServer(grpc.MaxRecvMsgSize(maxReceived), grpc.StatsHandler(connections{cfg.Users}), grpc.ChainUnaryInterceptor(recoverUnary(cfg.Logger)), grpc.ChainStreamInterceptor(recoverStream(cfg.Logger)))
	members := directory{cfg}
	symbiov1.RegisterControlServer(s, &server{fleetServer: fleetServer{cfg: cfg, members: members}, taskServer: taskServer{cfg}, cfg: cfg, members: members})
	grpc_health_v1.RegisterHealthServer(s, cfg.Health)
	reflection.Register(s)
	return s
}

// server implements the service. Its methods are called concurrently; each
// returns a gRPC status as its error.
type server struct {
	fleetServer // has the methods of the view of the community
	taskServer
	cfg     Config
	members directory
}

// Status returns what the node is and where it listens.
func (c *server) Status(context.Context, *symbiov1.StatusRequest) (*symbiov1.StatusReply, error) {
	return &symbiov1.StatusReply{
		Id: string(c.cfg.Identity.ID()), Name: c.cfg.Name, Listen: c.cfg.Listen, Pid: int64(os.Getpid()), Version: c.cfg.Version, Started: timestamppb.New(c.cfg.Started),
		Authority: c.cfg.Identity.Authority(), Workspace: c.cfg.Workspace, Private: c.cfg.Users != nil, Sources: SourceHealth(c.cfg.Sources), Models: c.cfg.ModelHealth(),
	}, nil
}

// Members returns the members that match the request.
func (c *server) Members(_ context.Context, r *symbiov1.MembersRequest) (*symbiov1.MembersReply, error) {
	return &symbiov1.MembersReply{Members: c.members.list(c.cfg.Community.Members(), r)}, nil
}

// WatchMembers sends a snapshot of the members and then every change. After a
// gap, which happens when the caller reads too slowly, it sends the whole list
// again.
func (c *server) WatchMembers(r *symbiov1.MembersRequest, stream symbiov1.Control_WatchMembersServer) error {
	sub := c.cfg.Community.Subscribe()
	defer sub.Close()
	for {
		change, err := sub.Next(stream.Context())
		if err != nil {
			return toStatus(err)
		}
		out := &symbiov1.MemberChange{Type: string(change.Kind), Missed: optional(uint32(change.Missed)), Why: optional(change.Why)}
		switch {
		case change.Kind == community.Snapshot || change.Kind == community.Gap:
			out.Members = c.members.list(change.Members, r)
		case c.members.matches(change.Member, r):
			out.Member = c.members.locate(change.Member)
		default:
			continue
		}
		if err := stream.Send(out); err != nil {
			return err
		}
	}
}

// optional returns a pointer to v, or nil for the zero value: nil fields are
// left out of --json.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Nodes returns the nodes that this node knows. The refusals of a node are the
// sum of those by calls and by connections. Labels are of the member that
// stands for a node.
func (c *server) Nodes(ctx context.Context, r *symbiov1.NodesRequest) (*symbiov1.NodesReply, error) {
	reply := &symbiov1.NodesReply{}
	var loads map[community.MemberID]placement.Load
	if r.GetLoad() {
		loads = c.cfg.Loads(ctx)
	}
	labels := map[community.MemberID]map[string]string{}
	for _, m := range slices.Concat(c.cfg.Community.Members(), c.cfg.Community.Catalog().Members) {
		labels[m.ID] = m.Metadata
	}
	for _, n := range c.cfg.Network.Nodes() {
		out := &symbiov1.Node{
			Id: string(n.ID), Name: n.Name, State: string(n.State), Addr: n.Addr, RttMs: float64(n.RTT.Microseconds()) / 1000,
			Members: uint32(n.Members), Protocol: n.Protocol, Why: optional(n.Why),
			CertDays: int32(n.CertDaysLeft), Refused: map[string]uint32{}, Via: optional(string(n.Via)), Sources: n.Sources, Authority: optional(n.Authority),
		}
		if n.ID != "" {
			out.Labels = labels[community.MemberID(n.ID)]
			if load, known := loads[community.MemberID(n.ID)]; known {
				out.Running, out.Free, out.Waiting = new(uint32(load.Running)), new(uint32(load.Free)), new(uint32(load.Waiting))
			}
			if over := c.cfg.Community.LeftOut(n.ID); over != "" && n.State == grpcpeer.StateConnected {
				out.Why = optional("left out: " + over)
			}
			for reason, count := range c.cfg.Community.Refusals(n.ID) {
				out.Refused[string(reason)] = uint32(count)
			}
			for reason, count := range c.cfg.Network.Refusals(n.ID) {
				out.Refused[string(reason)] += uint32(count)
			}
		}
		if n.State == grpcpeer.StateSelf {
			out.Process = Process()
		}
		reply.Nodes = append(reply.Nodes, out)
	}
	return reply, nil
}

// Capabilities returns the offered capabilities. A name that no node offers is
// an error.
func (c *server) Capabilities(_ context.Context, r *symbiov1.CapabilitiesRequest) (*symbiov1.CapabilitiesReply, error) {
	reply := &symbiov1.CapabilitiesReply{}
	for _, p := range c.cfg.Community.Capabilities() {
		if r.GetName() != "" && r.GetName() != p.Name {
			continue
		}
		reply.Capabilities = append(reply.Capabilities, &symbiov1.OfferedCapability{
			Capability: &symbiov1.Capability{
				Name: p.Name, Description: p.Description, InputSchema: p.Input, OutputSchema: p.Output, Idempotent: p.Idempotent,
			},
			Node: string(p.Node), NodeName: p.NodeName, Local: p.Node == c.cfg.Identity.ID(), Available: p.Available,
		})
	}
	if len(reply.Capabilities) == 0 && r.GetName() != "" {
		return nil, toStatus(c.members.notOffered(r.GetName()))
	}
	return reply, nil
}

// Spawn starts an agent that lives until it is terminated or the node stops;
// with keep it lives again when the node starts.
func (c *server) Spawn(ctx context.Context, r *symbiov1.SpawnRequest) (*symbiov1.LocatedMember, error) {
	def, err := c.cfg.Definition(r.GetAgent())
	if err != nil {
		return nil, toStatus(err)
	}
	m, err := c.cfg.Agents.Spawn(ctx, agent.Order{Definition: def, Name: r.GetName(), Rules: c.cfg.Rules.Policy, Limits: c.cfg.Limits, Ask: c.cfg.Unattended, Session: session.Info{Keep: r.GetKeep() || def.Keep}})
	return c.members.locate(m), toStatus(err)
}

// Terminate ends an agent of this node and waits until it has ended.
func (c *server) Terminate(ctx context.Context, r *symbiov1.TerminateRequest) (*symbiov1.LocatedMember, error) {
	m, err := c.members.find(r.GetMember(), func(community.Member) bool { return true })
	if err != nil {
		return nil, toStatus(err)
	}
	if err := c.cfg.Community.Terminate(ctx, m.ID); err != nil {
		return nil, toStatus(err)
	}
	return c.members.locate(m), nil
}

// Send delivers a signal to a member. It waits for the reply unless the request
// says otherwise.
func (c *server) Send(ctx context.Context, r *symbiov1.SendRequest) (*symbiov1.SendReply, error) {
	m, err := c.members.find(r.GetMember(), func(m community.Member) bool { return len(m.Accepts) > 0 })
	if err != nil {
		return nil, toStatus(err)
	}
	ctx, cancel := withTimeout(ctx, r.GetTimeout())
	defer cancel()
	signal := community.Signal{Perception: r.GetPerception(), Data: r.GetData(), ContentType: r.GetContentType()}
	// A one-way signal has no reply, so reply stays empty for Tell.
	var reply community.Reply
	if r.GetNoReply() {
		err = c.cfg.Community.Tell(ctx, m.ID, signal)
	} else {
		reply, err = c.cfg.Community.Send(ctx, m.ID, signal)
	}
	if err != nil {
		return nil, toStatus(c.members.withAdvice(err, m, "send", r.GetPerception()))
	}
	return &symbiov1.SendReply{Data: reply.Data, ContentType: reply.ContentType}, nil
}

// withTimeout returns ctx with the time limit of the request, if it has one.
// The limit is at most a day: a larger number is a mistake, and would keep the
// call's resources for as long.
func withTimeout(ctx context.Context, d *durationpb.Duration) (context.Context, context.CancelFunc) {
	if d.AsDuration() <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, min(d.AsDuration(), 24*time.Hour))
}

// statusOf maps errors to gRPC codes; the first match wins. The command line
// maps the codes to exit codes, so the table is a contract with scripts.
var statusOf = []struct {
	err  error
	code codes.Code
}{
	{context.DeadlineExceeded, codes.DeadlineExceeded},
	{context.Canceled, codes.Canceled},
	{community.ErrInvalid, codes.InvalidArgument},
	{community.ErrNotFound, codes.NotFound},
	{skills.ErrNotFound, codes.NotFound},
	{placement.ErrNone, codes.NotFound},
	{session.ErrNotFound, codes.NotFound},
	{session.ErrInUse, codes.ResourceExhausted},
	{agent.ErrNoSessions, codes.FailedPrecondition},
	{community.ErrRemoteMember, codes.FailedPrecondition},
	{community.ErrLocalMember, codes.FailedPrecondition},
	{community.ErrNotAccepted, codes.NotFound},
	{community.ErrNotProvided, codes.NotFound},
	{community.ErrBusy, codes.ResourceExhausted},
	{conversation.ErrBusy, codes.ResourceExhausted},
	{content.ErrPinned, codes.FailedPrecondition},
	{fleet.ErrSlow, codes.ResourceExhausted},
	{community.ErrUnavailable, codes.Unavailable},
	{community.ErrStopped, codes.Unavailable},
	{community.ErrDenied, codes.PermissionDenied},
}

// toStatus returns err as a gRPC status with its code of statusOf. It returns
// nil for nil.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	for _, s := range statusOf {
		if errors.Is(err, s.err) {
			return status.Error(s.code, err.Error())
		}
	}
	return status.Error(codes.Unknown, err.Error())
}

// Skills returns the catalog of skills.
func (c *server) Skills(ctx context.Context, r *symbiov1.SkillsRequest) (*symbiov1.SkillsReply, error) {
	reply, err := c.cfg.Skills(ctx, r.GetRescan())
	return reply, toStatus(err)
}

// SkillPrompt returns the text about skills that models get.
func (c *server) SkillPrompt(ctx context.Context, r *symbiov1.SkillPromptRequest) (*symbiov1.SkillPromptReply, error) {
	reply, err := c.cfg.SkillPrompt(ctx, r.GetFormat(), r.GetNames())
	return reply, toStatus(err)
}

// Approvals returns the calls that wait for a decision, on this node and on
// those that let this one see theirs.
func (c *server) Approvals(ctx context.Context, r *symbiov1.ApprovalsRequest) (*symbiov1.ApprovalsReply, error) {
	return c.cfg.Approvals.List(ctx, r.GetId(), r.GetHere()), nil
}

// Answer approves or denies one call.
func (c *server) Answer(ctx context.Context, r *symbiov1.AnswerRequest) (*symbiov1.AnswerReply, error) {
	a, err := c.cfg.Approvals.Answer(ctx, r)
	return &symbiov1.AnswerReply{Approval: a}, toStatus(err)
}

// Rules returns the lasting approvals.
func (c *server) Rules(context.Context, *symbiov1.RulesRequest) (*symbiov1.RulesReply, error) {
	return &symbiov1.RulesReply{Rules: c.cfg.Rules.Standing()}, nil
}

// Forget revokes one lasting approval.
func (c *server) Forget(_ context.Context, r *symbiov1.ForgetRequest) (*symbiov1.ForgetReply, error) {
	return &symbiov1.ForgetReply{}, toStatus(c.cfg.Rules.Forget(r.GetId()))
}

// Reload makes the node read changed files. Every failure is
// FailedPrecondition: nothing has changed, and a person has to act.
func (c *server) Reload(_ context.Context, r *symbiov1.ReloadRequest) (*symbiov1.ReloadReply, error) {
	reply, err := c.cfg.Reload(r.GetConfiguration())
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return reply, nil
}
