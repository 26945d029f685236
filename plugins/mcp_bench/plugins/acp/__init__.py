"""Any agent that speaks the Agent Client Protocol (https://agentclientprotocol.com)."""
