//! What a guest may ask of others: agents of the mesh and its requester (`mesh` and `input` in `wit/`).
//!
//! Owns the answer of a host that can carry neither question: `not-available`, which the contract foresees.

use crate::bindings::amp::capability::input::{self, InputError};
use crate::bindings::amp::capability::mesh::{self, Agent, AskError, AskRequest};
use crate::state::State;

/// What a guest is told that asks another agent.
const NO_MESH: &str = "this host cannot delegate work to other agents";
/// What a guest is told that asks its requester.
const NO_INPUT: &str = "this host cannot carry a question back to the requester";

impl mesh::Host for State {
    fn ask(&mut self, _request: AskRequest) -> Result<String, AskError> {
        Err(AskError::NotAvailable(NO_MESH.into()))
    }

    fn ask_many(&mut self, requests: Vec<AskRequest>) -> Vec<Result<String, AskError>> {
        requests.iter().map(|_| Err(AskError::NotAvailable(NO_MESH.into()))).collect()
    }

    fn find(&mut self, _service: Option<String>) -> Result<Vec<Agent>, AskError> {
        Err(AskError::NotAvailable(NO_MESH.into()))
    }
}

impl input::Host for State {
    fn request(&mut self, _question: String, _schema: Option<String>) -> Result<String, InputError> {
        Err(InputError::NotAvailable(NO_INPUT.into()))
    }
}
