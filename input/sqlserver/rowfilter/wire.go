package rowfilter

import "encoding/binary"

// Types of packets (MS-TDS 2.2.3.1.1) and bits of their status.
const (
	packetBatch     = 0x01
	packetRPC       = 0x03
	packetReply     = 0x04
	packetAttention = 0x06
	packetLogin7    = 0x10
	packetPrelogin  = 0x12

	statusLast = 0x01

	headerSize = 8
)

// Tokens (MS-TDS 2.2.7).
const (
	tokenReturnStatus  = 0x79
	tokenColMetadata   = 0x81
	tokenTabName       = 0xA4
	tokenColInfo       = 0xA5
	tokenOrder         = 0xA9
	tokenError         = 0xAA
	tokenInfo          = 0xAB
	tokenReturnValue   = 0xAC
	tokenLoginAck      = 0xAD
	tokenRow           = 0xD1
	tokenNBCRow        = 0xD2
	tokenEnvChange     = 0xE3
	tokenSessionState  = 0xE4
	tokenSSPI          = 0xED
	tokenFedAuthInfo   = 0xEE
	tokenDone          = 0xFD
	tokenDoneProc      = 0xFE
	tokenDoneInProc    = 0xFF
	lengthOfDone       = 13
	noMetadata         = 0xFFFF
	flagEncryptedValue = 0x0800
)

// Types of columns (MS-TDS 2.2.5.4).
const (
	typeImage          = 0x22
	typeText           = 0x23
	typeGUID           = 0x24
	typeIntN           = 0x26
	typeDate           = 0x28
	typeTime           = 0x29
	typeDateTime2      = 0x2A
	typeDateTimeOffset = 0x2B
	typeInt1           = 0x30
	typeBit            = 0x32
	typeInt2           = 0x34
	typeDecimal        = 0x37
	typeInt4           = 0x38
	typeSmallDateTime  = 0x3A
	typeReal           = 0x3B
	typeMoney          = 0x3C
	typeDateTime       = 0x3D
	typeFloat          = 0x3E
	typeNumeric        = 0x3F
	typeVariant        = 0x62
	typeNText          = 0x63
	typeBitN           = 0x68
	typeDecimalN       = 0x6A
	typeNumericN       = 0x6C
	typeFloatN         = 0x6D
	typeMoneyN         = 0x6E
	typeDateTimeN      = 0x6F
	typeSmallMoney     = 0x7A
	typeInt8           = 0x7F
	typeBigVarBinary   = 0xA5
	typeBigVarChar     = 0xA7
	typeBigBinary      = 0xAD
	typeBigChar        = 0xAF
	typeNVarChar       = 0xE7
	typeNChar          = 0xEF
	typeUDT            = 0xF0
	typeXML            = 0xF1
)

// Lengths with a meaning of their own.
const (
	shortNull      = 0xFFFF             // of a USHORTLEN value: NULL
	sizeMax        = 0xFFFF             // of a declared size: (max), sent in chunks
	chunkedNull    = 0xFFFFFFFFFFFFFFFF // of a chunked value: NULL
	chunkedUnknown = 0xFFFFFFFFFFFFFFFE // of a chunked value: its length is not told
	longestValue   = 1<<31 - 1          // bytes of any value
)

// le reads what is inside tokens, be what is in packet headers and PRELOGIN.
func le16(b []byte) int    { return int(binary.LittleEndian.Uint16(b)) }
func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
func be16(b []byte) int    { return int(binary.BigEndian.Uint16(b)) }
