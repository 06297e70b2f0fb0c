package tds

import (
	"encoding/binary"
	"strconv"
)

// Token bytes of a tabular answer (MS-TDS 2.2.7).
const (
	tokenReturnStatus  = 0x79
	tokenColMetadata   = 0x81
	tokenOrder         = 0xA9
	tokenError         = 0xAA
	tokenInfo          = 0xAB
	tokenReturnValue   = 0xAC
	tokenLoginAck      = 0xAD
	tokenFeatureExtAck = 0xAE
	tokenRow           = 0xD1
	tokenNBCRow        = 0xD2
	tokenEnvChange     = 0xE3
	tokenDone          = 0xFD
	tokenDoneProc      = 0xFE
	tokenDoneInProc    = 0xFF
)

// DoneStatus are the status bits of DONE, DONEPROC and DONEINPROC (MS-TDS 2.2.7.6).
type DoneStatus uint16

// Status bits. The writer sets DoneMore and DoneAttention itself.
const (
	DoneFinal       DoneStatus = 0
	DoneMore        DoneStatus = 0x01
	DoneError       DoneStatus = 0x02
	DoneInTran      DoneStatus = 0x04
	DoneCount       DoneStatus = 0x10 // Count is valid
	DoneAttention   DoneStatus = 0x20
	DoneRPCInBatch  DoneStatus = 0x80
	DoneServerError DoneStatus = 0x100 // severe: the client discards what it got
)

// Command is the number of the statement a DONE token ends.
type Command uint16

// Commands, as seen from servers of 2008 to 2022.
const (
	CommandNone         Command = 0x00
	CommandSet          Command = 0xB9 // also fmtonly
	CommandImplicitTran Command = 0xBA
	CommandUse          Command = 0xBE
	CommandAssign       Command = 0xC0
	CommandSelect       Command = 0xC1
	CommandInsert       Command = 0xC3
	CommandDelete       Command = 0xC4
	CommandUpdate       Command = 0xC5
	CommandCreateTable  Command = 0xC6
	CommandDropTable    Command = 0xC7
	CommandRollback     Command = 0xD2
	CommandBegin        Command = 0xD4
	CommandCommit       Command = 0xD5
	CommandExecute      Command = 0xE0
	CommandSetIsolation Command = 0xF9
	CommandBeginTM      Command = 0xFD // begin by a transaction manager request
)

// Done is a DONE, DONEPROC or DONEINPROC token.
type Done struct {
	Status  DoneStatus
	Command Command
	Count   uint64 // rows, valid with DoneCount
}

// ServerError is an ERROR or INFO token, by its class: 10 and below are INFO. As an error returned by a handler it is sent
// to the client.
type ServerError struct {
	Number int32
	State  uint8
	Class  uint8
	Text   string
	Server string // empty takes the configured name
	Proc   string
	Line   int32
}

// Error gives number and text.
func (e *ServerError) Error() string { return "Msg " + strconv.Itoa(int(e.Number)) + ": " + e.Text }

// IsInfo reports whether the message is informational.
func (e *ServerError) IsInfo() bool { return e.Class <= 10 }

// fatalClass is the class from which on the server closes the connection.
const fatalClass = 20

// maxMessageUnits keeps an ERROR or INFO token, whose length has two bytes, below its limit.
const maxMessageUnits = 30_000

// appendMessage appends an ERROR or INFO token.
func (e *ServerError) append(dst []byte, server string) []byte {
	token := byte(tokenError)
	if e.IsInfo() {
		token = tokenInfo
	}
	at := len(dst)
	dst = append(dst, token, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(e.Number))
	dst = append(dst, e.State, e.Class)
	dst = appendUSVarchar(dst, cutUnits(e.Text, maxMessageUnits))
	if e.Server != "" {
		server = e.Server
	}
	dst = appendBVarchar(appendBVarchar(dst, server), e.Proc)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(e.Line))
	return patchLength(dst, at+1)
}

// patchLength writes the length of what follows a two-byte length field at position at.
func patchLength(dst []byte, at int) []byte {
	binary.LittleEndian.PutUint16(dst[at:], uint16(len(dst)-at-2))
	return dst
}

// appendDone appends a DONE token.
func appendDone(dst []byte, token byte, d Done) []byte {
	dst = binary.LittleEndian.AppendUint16(append(dst, token), uint16(d.Status))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(d.Command))
	return binary.LittleEndian.AppendUint64(dst, d.Count)
}

// Types of ENVCHANGE (MS-TDS 2.2.7.9). Only these are sent: jdbc takes an unknown one for a broken stream.
const (
	envDatabase   = 1
	envLanguage   = 2
	envPacketSize = 4
	envCollation  = 7
	envBegin      = 8
	envCommit     = 9
	envRollback   = 10
	envMirror     = 13
	envTranEnded  = 17
	envResetAck   = 18
	envRouting    = 20
)

// appendEnvText appends an ENVCHANGE of two texts.
func appendEnvText(dst []byte, typ byte, value, old string) []byte {
	at := len(dst)
	dst = append(dst, tokenEnvChange, 0, 0, typ)
	return patchLength(appendBVarchar(appendBVarchar(dst, value), old), at+1)
}

// appendEnvBytes appends an ENVCHANGE of two byte strings.
func appendEnvBytes(dst []byte, typ byte, value, old []byte) []byte {
	at := len(dst)
	dst = append(dst, tokenEnvChange, 0, 0, typ, byte(len(value)))
	dst = append(append(dst, value...), byte(len(old)))
	return patchLength(append(dst, old...), at+1)
}

// Routing is where a client is sent on to, by ENVCHANGE 20.
type Routing struct {
	Host string
	Port uint16
}

// appendRouting appends the ENVCHANGE that sends a client on.
func appendRouting(dst []byte, r Routing) []byte {
	at := len(dst)
	dst = append(dst, tokenEnvChange, 0, 0, envRouting, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint16(dst, r.Port)
	dst = patchLength(appendUSVarchar(dst, r.Host), at+4)
	return patchLength(append(dst, 0, 0), at+1)
}

// appendLoginAck appends LOGINACK; the version is big-endian here.
func appendLoginAck(dst []byte, v Version, program string, p ProductVersion) []byte {
	at := len(dst)
	dst = append(dst, tokenLoginAck, 0, 0, 1)
	dst = binary.BigEndian.AppendUint32(dst, uint32(v))
	dst = appendBVarchar(dst, program)
	dst = append(dst, p.Major, p.Minor, byte(p.Build>>8), byte(p.Build))
	return patchLength(dst, at+1)
}

// appendFeatureAck appends FEATUREEXTACK.
func appendFeatureAck(dst []byte, features []Feature) []byte {
	dst = append(dst, tokenFeatureExtAck)
	for _, f := range features {
		dst = binary.LittleEndian.AppendUint32(append(dst, f.ID), uint32(len(f.Data)))
		dst = append(dst, f.Data...)
	}
	return append(dst, featureEnd)
}
